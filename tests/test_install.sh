#!/usr/bin/env bash
# The build that PACER belongs to, installed into a folder and used from there: the program with ranks, the library
# with the example, manual pages and completion; and removed again.
source_folder=$(cd "$(dirname "$0")/.." && pwd) || exit 1
. "$source_folder/tests/support/program.sh"
build=$(dirname "$PACER")
export OMP_NUM_THREADS=1

prefix=$work/usr
# The manifest of the build is a person's: it is left as it was.
manifest=$build/install_manifest.txt
[[ ! -e $manifest ]] || cp "$manifest" manifest.kept
cmake --install "$build" --prefix "$prefix" >install.log 2>&1 || {
    cat install.log
    exit 1
}
mv "$manifest" manifest
[[ ! -e manifest.kept ]] || mv manifest.kept "$manifest"
# What is found must not depend on where it was installed first.
mv usr moved
sed "s|^$prefix/|$work/moved/|" manifest >manifest.moved
prefix=$work/moved

libdir=$(dirname "$(find "$prefix" -name 'libpacer.so')")
for file in bin/pacer include/pacer.h share/man/man1/pacer.1 share/man/man1/pacer-train.1 \
    share/bash-completion/completions/pacer share/zsh/site-functions/_pacer \
    share/fish/vendor_completions.d/pacer.fish share/pacer/recipes/accumulation.yaml share/pacer/peer/torch_train.py \
    share/doc/pacer/LICENSE share/doc/pacer/docs/reference/formats.md share/doc/pacer/examples/train.c \
    share/doc/pacer/examples/from_text.c; do
    [[ -s $prefix/$file ]] || fail "$file is not installed"
done
[[ $(readlink "$libdir/libpacer.so") == libpacer.so.0 ]] || fail "libpacer.so does not lead to libpacer.so.0"
objdump -p "$libdir/libpacer.so" | grep 'SONAME *libpacer.so.0$' >/dev/null || fail "the library's soname is not libpacer.so.0"

# The library shows what its header declares, and nothing else.
nm -D --defined-only "$libdir/libpacer.so" | awk '$2 != "A" { sub("@.*", "", $3); print $3 }' | sort >shown
sed -n 's/^PACER_EXPORT .*\(pacer_[a-z_]*\)(.*/\1/p' "$prefix/include/pacer.h" | sort >declared
diff declared shown || fail "the library's symbols are not those of its header"

# A program of one's own.
export PKG_CONFIG_PATH=$libdir/pkgconfig
for example in train from_text; do
    cp "$prefix/share/doc/pacer/examples/$example.c" . || exit 1
    # shellcheck disable=SC2046
    ${CC:-cc} -std=c11 -Wall -Wextra -Werror -o $example $example.c $(pkg-config --cflags --libs pacer) -lm ||
        fail "the example $example does not compile"
done
echo '#include <pacer.h>' >empty.cc
if command -v g++ >/dev/null; then
    # shellcheck disable=SC2046
    g++ -std=c++11 -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags pacer) empty.cc ||
        fail "C++ does not take the header"
fi
small=(--layers 1 --d-model 16 --heads 2 --context 32 --batch 2)
export LD_LIBRARY_PATH=$libdir
./train "${small[@]}" --steps 3 --log-every 1 --out example >out 2>err || fail "the example fails: $(cat out)"
[[ ! -s err ]] || fail "the library writes to stderr"
[[ $(grep -c '^step [123] of 3: loss [0-9.]*, ' out) == 3 ]] || fail "the example tells other steps: $(cat out)"
grep -q '^example: 3 steps, training loss [0-9]' out || fail "the example does not conclude: $(cat out)"

# near A B: equal, but for the rounding of four digits and of sums.
near() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && a - b < 2e-4 && b - a < 2e-4) }'; }

# From text to logits: what is told, what is recorded and what an evaluation finds are the same number.
./from_text builtin:stories:200k chain >out 2>err || fail "the example from_text fails: $(cat out err)"
[[ ! -s err ]] || fail "the library writes to stderr: $(cat err)"
[[ $(wc -l <out) == 12 ]] || fail "the library writes to stdout: $(cat out)"
loss=$(sed -n 's/^step 60 of 60: validation loss //p' out)
for line in "tokenizer: 512 entries from 200000 bytes" "chain/run: validation loss $loss" \
    "recorded: $loss after step 60" "exported: chain/hf"; do
    grep -qxF "$line" out || fail "the example from_text does not say '$line': $(cat out)"
done
near "$(sed -n 's/^evaluated: loss \([0-9.]*\), .*/\1/p' out)" "$loss" || fail "another loss than $loss is evaluated: $(cat out)"
# 512 entries make ln 512 = 6.24 by chance; a text of the stories' kind is less of a surprise, also from logits alone.
awk '/^logits of 2 x 32 x 512: loss / { found = $9 > 2 && $9 < 6.2 } END { exit !found }' out ||
    fail "the loss from logits: $(cat out)"
unset LD_LIBRARY_PATH
exported=$("$PACER" eval chain/hf --data chain/shards --seq 64 2>err | awk '$1 == "loss" { print $2 }')
near "$exported" "$loss" || fail "the exported model has the loss $exported, not $loss"

# The program from its new place; ranks need the module.
PACER=$prefix/bin/pacer
expect 0 "configurations" sweep accumulation --smoke --dry-run
if [[ -e $prefix/lib/pacer/pacer_mpi.so ]] && command -v mpirun >/dev/null; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    "$PACER" train --data builtin:random "${small[@]}" --steps 2 --ranks 2 --out ranks >out 2>err &&
        grep -q "Done: 2 steps" out err || fail "two ranks of the installed program"
fi

cmake "-DMANIFEST=$work/manifest.moved" -P "$source_folder/cmake/uninstall.cmake" >out 2>&1 || fail "uninstall: $(cat out)"
left=$(find "$prefix" -type f -o -type l)
[[ -z $left ]] || fail "uninstall leaves $left"
exit $failed
