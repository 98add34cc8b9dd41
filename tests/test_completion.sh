#!/usr/bin/env bash
# Completion in bash: the script of `pacer completion bash` is asked what a shell would ask. Those of zsh and fish
# are read by their shells where they are installed. The manual pages have every option too.
. "$(dirname "$0")/support/program.sh"

"$PACER" completion bash >pacer.bash || fail "no script for bash"
"$PACER" completion zsh >_pacer || fail "no script for zsh"
"$PACER" completion fish >pacer.fish || fail "no script for fish"
expect 2 "use bash, zsh or fish" completion tcsh
# shellcheck disable=SC1091
source ./pacer.bash || fail "bash does not read its script"

# completes EXPECTED WORD...: what may stand in the place of the last word, sorted, is EXPECTED.
completes() {
    local expected=$1 actual
    shift
    COMP_WORDS=(pacer "$@")
    COMP_CWORD=$#
    _pacer
    actual=$(printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')
    [[ ${actual% } == "$expected" ]] || fail "pacer $*: completes to '${actual% }', not '$expected'"
}

mkdir runs
: >recipe.yaml
completes 'generate' g
completes 'train' tr
completes 'data demo duel' d
completes 'info prepare stories' data ''
completes 'decode' tokenizer d
completes 'ops' bench o
completes '--sample-every --save --save-every --save-minutes --schedule --score-cap --score-scale --seed --seq --shard-group --state-dtype --steps' train --s
completes '--split' eval gpt2 --sp
completes 'auto cpu cuda ref' train --device ''
completes 'cuda' train --steps 3 --device cu
completes 'cpu cuda' train --device = c
completes 'auto cpu cuda ref' train --device =
completes 'off on' train --graph =
completes '--grad-dtype --graph' train --quiet --gra
completes '--graph' train --quiet --grap
completes 'gpt2-124m' train --model gpt2-12
completes '' train --steps ''
completes '_pacer builtin:bytes builtin:random builtin:stories err out pacer.bash pacer.fish recipe.yaml runs' train --data ''
completes 'recipe.yaml runs' train --data r
completes 'recipe.yaml' sweep re
completes 'runs' report ru
completes 'bash fish zsh' completion ''
completes 'tokenizer train' help t
completes 'info' help data i
completes '' models x

# The same options as in help, for every command.
while read -r command; do
    # shellcheck disable=SC2086
    "$PACER" $command --help | sed -n 's/^  \(--\[\{0,1\}[]a-z0-9-]*\).*/\1/p' | sort >in-help
    COMP_WORDS=(pacer $command --)
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _pacer
    printf '%s\n' "${COMPREPLY[@]}" | sort | diff - <(sed 's/\[no-]//' in-help | sort) >/dev/null ||
        fail "pacer $command: completion and help have different options"
    # shellcheck disable=SC2086
    "$PACER" help --man $command | sed -n 's/^\\fB\\-\\-\([^\\ ]*\(\\-[^\\ ]*\)*\)\\fR.*/--\1/p' |
        tr -d '\\' | sort | diff - in-help >/dev/null ||
        fail "pacer $command: its manual page and help have different options"
done < <("$PACER" help | sed -n '/^Commands/,/^$/s/^  \([a-z]* \{0,1\}[a-z]*\)  .*/\1/p' | grep -v 'version\|help')

if command -v zsh >/dev/null; then
    zsh -n _pacer || fail "zsh does not read its script"
fi
if command -v fish >/dev/null; then
    fish -n pacer.fish || fail "fish does not read its script"
fi
exit $failed
