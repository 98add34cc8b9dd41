#!/usr/bin/env bash
# Checkpoints that every rank writes its part of: their bytes do not depend on how many ranks there are, nor on when they are
# written, and any number of ranks loads them. What cannot be saved is named, and is not the end of a training. PACER names the
# program, FAULTLIB the library that makes calls fail.
# shellcheck source=tests/support/program.sh
source "$(dirname "$0")/support/program.sh"
save=$(dirname "$PACER")/tests/comm_save
export ASAN_OPTIONS=detect_leaks=0 # MPI keeps memory until the end of the process

same() { # FOLDER FOLDER: the two files of tensors
    cmp "$1/ckpt/step-5/model.safetensors" "$2/ckpt/step-5/model.safetensors" &&
        cmp "$1/ckpt/step-5/optimizer.safetensors" "$2/ckpt/step-5/optimizer.safetensors" || fail "$1 and $2 differ"
}

counts=(1)
[[ $("$PACER" --version) == *"with "*MPI* ]] && type -P "${MPIRUN:-mpirun}" >/dev/null && counts=(1 2 3)
while read -r kind optimizer dtype; do
    rm -rf one && "$save" one $kind $optimizer $dtype >out 2>err || fail "one rank: $kind $optimizer $dtype"
    for n in "${counts[@]}"; do
        ((n == 1)) && start=() || start=(mpirun -bind-to none -np "$n")
        rm -rf several && "${start[@]}" "$save" several $kind $optimizer $dtype one/sync/ckpt/latest >out 2>err ||
            fail "$n ranks: $kind $optimizer $dtype"
        for how in sync async again; do
            same one/sync "several/$how"
        done
        [[ -z $(find several -name '*tmp*' -not -path '*apart-[1-9]*') ]] || fail "left behind: $(find several -name '*tmp*')"
    done
    rm -rf back && "$save" back $kind $optimizer $dtype several/async/ckpt/latest >out 2>err || fail "one rank loads what $n saved"
    same one/sync back/again
done <<END
naive adamw f32
zero1 adamw f32
zero1 muon f32
zero1 adamw bf16
zero3 adamw f32
END

# What one rank does alone at the end of a save, here with a slow state.json, may take longer than
# --comm-timeout. (No preloading before sanitizers, as FAULTLIB tells.)
if ((n > 1)) && [[ -n ${FAULTLIB:-} ]]; then
    slow=$(dirname "$PACER")/tests/libslow_io.so
    jobs=()
    for how in sync async; do
        env LD_PRELOAD="$slow" SLOW_FILE=state.json:7 "$PACER" train --model tiny --layers 1 --d-model 32 --heads 2 --ffn 32 --context 16 \
            --data builtin:bytes --batch 1 --threads 1 --ranks 2 --ddp zero3 --steps 3 --eval-every 0 --save $how --comm-timeout 6 --quiet \
            --out "waits-$how" >"waits-$how.out" 2>&1 &
        jobs+=($!)
    done
    for job in "${jobs[@]}"; do
        wait "$job" || fail "a rank at its files is not waited for: $? $(cat waits-*.out)"
    done
fi

# Behind training: the same checkpoints as at once. Their copy is planned.
small=(--model gpt2-124m --layers 1 --heads 1 --vocab 300 --context 16 --data builtin:random --device cpu --batch 2
    --eval-every 0 --threads 1 --save-every 2 --keep 0)
tiny=(train "${small[@]}" --d-model 16 --ffn 16 --steps 8)
large=(train "${small[@]}" --d-model 512 --ffn 2048 --steps 2 --memory-limit "$(limit 64)")
"$PACER" "${tiny[@]}" --quiet --out calm >out 2>err || fail "at once: $?"
expect 0 "step 2 is saved" "${tiny[@]}" --save async --out behind
for step in 2 4 6 8; do
    for file in model optimizer; do
        cmp "calm/ckpt/step-$step/$file.safetensors" "behind/ckpt/step-$step/$file.safetensors" || fail "step $step: $file"
    done
done
# Where latest leads nowhere, as when its folder was removed or a copy has lost links: not anew, but from the newest there.
cp -r calm unlinked && rm -r unlinked/ckpt/latest unlinked/ckpt/step-8
expect 2 'holds a run with checkpoints' "${tiny[@]}" --resume never --out unlinked
expect 0 'unlinked/ckpt/latest leads to no checkpoint; taking unlinked/ckpt/step-6' "${tiny[@]}" --out unlinked
grep -q 'Going on from unlinked/ckpt/step-6' out err || fail "began anew"
cmp calm/ckpt/step-8/optimizer.safetensors unlinked/ckpt/step-8/optimizer.safetensors || fail "without its link: another result"
expect 3 "or --save sync" "${large[@]}" --save async --out never
"$PACER" "${large[@]}" --quiet --out large >out 2>err || fail "no copy, and it does not fit: $?"
"$PACER" plan "${small[@]}" --save async >out 2>err || fail "plan: $?"
grep -Eq '^  save_copy +[0-9]+ ' out || fail "the plan does not have the copy: $(cat out)"

# A checkpoint that a full disk refuses is told of and recorded, the next one is made; without the last one the run has failed.
refused() { # NAME SAVE N...: with the N-th allocations of a file refused
    local name=$1 how=$2
    shift 2
    rm -rf state "$name"
    env FAULT_FAST=1 FAULT_STATE=state FAULT_CALL=fallocate FAULT_AT="$1" ${2:+FAULT_STICKY=1} LD_PRELOAD="$FAULTLIB" \
        "$PACER" "${tiny[@]}" --save "$how" --out "$name" >out 2>err
}
if [[ -n ${FAULTLIB:-} ]]; then
    for how in sync async; do
        refused once $how 4 || fail "$how: a checkpoint that is missing ends the run: $?"
        grep -q 'saving step 4: .*optimizer.safetensors: cannot write: No space left on device; training goes on' err ||
            fail "$how: not told"
        grep -q '"failed_saves"' once/run.json && grep -q '"why":.*No space left' once/run.json || fail "$how: not in the record"
        [[ $(ls once/ckpt) == "$(printf 'latest\nstep-2\nstep-6\nstep-8')" ]] || fail "$how: $(ls once/ckpt)"
        cmp once/ckpt/step-8/optimizer.safetensors calm/ckpt/step-8/optimizer.safetensors || fail "$how: another result"
        refused full $how 3 on && fail "$how: a run without its result ends well"
        grep -q 'saving step 8: .*No space left' err || fail "$how: the last checkpoint: $(tail -n 2 err)"
        [[ $(readlink full/ckpt/latest) == step-2 && ! -e full/ckpt/tmp-step-8 ]] || fail "$how: $(ls full/ckpt)"
        "$PACER" "${tiny[@]}" --quiet --out full >out 2>err || fail "$how: again, with room: $?"
        cmp full/ckpt/step-8/model.safetensors calm/ckpt/step-8/model.safetensors || fail "$how: another result, again"
    done
fi
exit $failed
