#!/usr/bin/env bash
# recipes/slurm.sbatch, walked with stand-ins for srun and scontrol: what it starts on which nodes, when it starts again, and a
# real job that loses a rank and then a node. PACER names the program.
# shellcheck source=tests/support/program.sh
here=$(cd "$(dirname "$0")" && pwd)
source "$here/support/program.sh"

# srun: a line of its arguments in `calls`. A probe (`true`) succeeds on the nodes that `up` names;
# a job ends with the next status of `statuses`, leaving a run.json that says `says`, if that is
# there; or, where the status is `real`, as the program does under mpirun.
mkdir -p bin build
cat >bin/srun <<'SRUN'
#!/usr/bin/env bash
for argument; do
    case $argument in
    --nodelist=*) nodes=${argument#*=} ;;
    --ntasks=*) tasks=${argument#*=} ;;
    --*) ;;
    *) break ;;
    esac
done
if [[ ${!#} == true ]]; then
    grep -qwF -- "$nodes" up
    exit
fi
echo "$*" >>calls
status=$(head -n 1 statuses)
sed -i 1d statuses
if [[ $status != real ]]; then
    [[ ! -e says ]] || { mkdir -p runs/gpt2-slurm && cat says - <<<"$RANDOM" >runs/gpt2-slurm/run.json; }
    exit "$status"
fi
while [[ $1 == --* ]]; do shift; done
exec "$REAL_MPIRUN" $MPIRUN_MORE -np "$tasks" "$@"
SRUN
printf '#!/bin/sh\n[ "$1 $2" = "show hostnames" ] && echo "$3" | tr , "\\n"\n' >bin/scontrol
chmod +x bin/*
ln -s "$PACER" build/pacer
[[ ! -e $(dirname "$PACER")/pacer_mpi.so ]] || ln -s "$(dirname "$PACER")/pacer_mpi.so" build/
job() { # RECIPE NODES
    : >calls
    PATH=$work/bin:$PATH SLURM_SUBMIT_DIR=$work SLURM_JOB_NODELIST=$2 bash "$1" >out 2>err
}
recipe=$here/../recipes/slurm.sbatch

# walk NAME NODES UP STATUSES EXPECTED: the exit status, and nodes with their ranks of each start.
walk() {
    local name=$1 status starts
    tr , '\n' <<<"$3" >up
    tr ' ' '\n' <<<"$4" >statuses
    SLURM_NTASKS_PER_NODE=4 job "$recipe" "$2"
    status=$?
    starts=$(sed 's/.*--nodelist=\([^ ]*\) --nodes=\([0-9]*\) --ntasks=\([0-9]*\) .*/\1:\2:\3/' calls | tr '\n' ' ')
    [[ "$status ${starts% }" == "$5" ]] || fail "$name: '$status ${starts% }', not '$5'"
}
all=node-a,node-b,node-c
walk "ends well" $all $all 0 "0 $all:3:12"
walk "a lost rank" $all $all "137 0" "0 $all:3:12 $all:3:12"
walk "the last node lost" $all node-a,node-b "1 0" "0 $all:3:12 node-a,node-b:2:8"
walk "the first node lost" $all node-c "139 1 0" "0 $all:3:12 node-c:1:4 node-c:1:4"
walk "no node left" $all nowhere 137 "137 $all:3:12"
walk "lost too often" node-a node-a "1 1 1 1 0" "1 node-a:1:4 node-a:1:4 node-a:1:4 node-a:1:4"
for status in 130 143 2 3 4; do
    walk "status $status" $all $all "$status 0" "$status $all:3:12"
done
echo '"status": "failed", "lost": true' >says
walk "says that a rank was lost" node-a node-a "1 0" "0 node-a:1:4 node-a:1:4"
echo '"status": "failed"' >says
walk "says that it failed" node-a node-a "1 0" "1 node-a:1:4"
rm says # what an earlier job has left does not count
walk "a rank lost before the record" node-a node-a "137 0" "0 node-a:1:4 node-a:1:4"
rm -r runs
for option in --mpi=pmix --kill-on-bad-exit=1 'build/pacer train' '--global-batch'; do
    grep -q -- "$option" calls || fail "srun is not given $option: $(cat calls)"
done

# A rank is lost, then a node with its rank: the job ends by itself, with the losses of an undisturbed one.
if [[ $("$PACER" --version) != *"with "*MPI* ]] || ! command -v mpirun >/dev/null; then
    exit $failed
fi
export REAL_MPIRUN=$mpirun_path MPIRUN_MORE="${mpirun_more[*]} -bind-to none" ASAN_OPTIONS=detect_leaks=0
small=(--model tiny --data builtin:bytes --layers 1 --d-model 32 --heads 2 --ffn 64 --context 32 --seq 32 --threads 1
    --global-batch 8 --steps 1500 --log-every 20 --save-every 20 --comm-timeout 12 --device cpu --quiet)
sed -E 's/^ +--model gpt2-124m .*/        $SMALL --batch 2 \\/; s/^( +--ddp) overlap .*/\1 zero1 --out "$out" || status=$?/; s/^out=.*/out=runs/' "$recipe" >small.sbatch
grep -q SMALL small.sbatch && grep -q 'ddp zero1 --out' small.sbatch && grep -q '^out=runs$' small.sbatch || fail "the recipe reads otherwise: $(cat small.sbatch)"
"$PACER" train "${small[@]}" --batch 8 --out calm >out 2>err || fail "undisturbed"
printf 'node-a\nnode-b\n' >up
printf 'real\nreal\nreal\n' >statuses
(SMALL="${small[*]}" SLURM_NTASKS_PER_NODE=1 job small.sbatch node-a,node-b) &
job=$!
for starts in 1 2; do
    await "((\$(wc -l <calls) == $starts))"
    seen=$(readlink runs/ckpt/latest)
    await '[[ $(readlink runs/ckpt/latest) != "$seen" && -n $(ranks_of 0 "--out runs\$") ]]'
    ((starts == 1)) || echo node-a >up
    kill -KILL "$(ranks_of 0 '--out runs$' | tail -1)" || fail "no rank to kill"
done
wait $job || fail "the job: status $?"
(($(wc -l <calls) == 3)) && tail -n 1 calls | grep -q -- '--nodelist=node-a --nodes=1 --ntasks=1 ' || fail "starts: $(cat calls)"
grep -q '"status":[[:space:]]*"done"' runs/run.json || fail "status"
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([0-9.]*\).*/\1 \2/p' "$1/metrics.jsonl"; }
paste -d ' ' <(losses calm) <(losses runs) |
    awk '{ d = $2 - $4 } $1 != $3 || d > 1e-3 * $2 || -d > 1e-3 * $2 { print; bad = 1 } END { exit bad || NR != 76 }' >far ||
    fail "losses: $(head far) $(losses runs | wc -l)"

# A run that diverges is not tried again: it would come to the same.
rm -r runs && printf 'real\nreal\n' >statuses
SMALL="${small[*]} --lr 100 --warmup 0 --clip 0" SLURM_NTASKS_PER_NODE=2 job small.sbatch node-a
status=$?
[[ $status == 1 ]] && grep -q 'became' err && (($(wc -l <calls) == 1)) || fail "diverged: status $status, $(cat calls)"

[[ $failed == 0 ]] && echo "the recipe goes on with what is left"
exit $failed
