#!/usr/bin/env bash
# Every rule of tools/lint.sh can fail: plants one violation at a time in a small tree and looks for
# the line that names it.
set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/pacer-lint-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

# expect STATUS LINE COMMAND: after COMMAND in a fresh tree the linter exits with STATUS and prints
# a line that starts with LINE.
expect() {
    local status output
    rm -rf "$work/tree"
    mkdir -p "$work/tree"/{src/{base,tensor,ref,cpu,text,data,model,optim},tests,cmake}
    cd "$work/tree" || exit 1
    cp "$root/.clang-format" .
    printf '#pragma once\nint base_value(void);\n' >src/base/base.h
    printf '#pragma once\n#include "base/base.h"\n' >src/tensor/tensor.h
    printf '#include "tensor/tensor.h"\n\n#include <stdio.h>\n' >src/model/model.c
    eval "$3"
    output=$(env -u CI "$root/tools/lint.sh" "$work/tree" 2>&1)
    status=$?
    if [[ $status != "$1" || $'\n'$output != *$'\n'"$2"* ]]; then
        printf 'expected status %s and "%s" after: %s\nbut status %s and:\n%s\n\n' "$1" "$2" "$3" \
            "$status" "$output"
        failed=1
    fi
}

expect 0 'lint: 3 files, no violations' :
expect 0 'warning: src/base/long.c: 501 lines' 'yes "/* line */" | head -n 501 >src/base/long.c'
expect 1 'src/base/long.c:601: 601 lines' 'yes "/* line */" | head -n 601 >src/base/long.c'
if command -v clang-format-14 >/dev/null || clang-format --version 2>/dev/null | grep -q 'version 14'; then
    expect 1 'src/base/a.c:2: not in the house format' 'printf "\nint  x ;\n" >src/base/a.c'
fi

expect 1 'src/base/a.c:1: base must not include tensor' \
    'echo "#include \"tensor/tensor.h\"" >src/base/a.c'
expect 1 'src/ref/a.c:1: ref must not include cpu' 'echo "#include \"cpu/cpu.h\"" >src/ref/a.c'
expect 1 'src/text/a.c:1: text must not include data' 'echo "#include \"data/d.h\"" >src/text/a.c'
expect 1 'src/base/a.c:2: more than 100 columns' \
    'printf "/* a\\n * %0100d */\\n" 0 >src/base/a.c'
expect 0 'lint: 5 files, no violations' \
    'mkdir src/config; echo "#pragma once" >src/model/fields.h; echo "#include \"model/fields.h\"" >src/config/a.c'
expect 1 'src/config/a.c:1: config must not include model' \
    'mkdir src/config; echo "#include \"model/model.h\"" >src/config/a.c'
expect 1 'src/base/a.c:1: write the include from src/' 'echo "#include \"base.h\"" >src/base/a.c'
expect 1 'src/new/a.c:1: src/new is no room' 'mkdir src/new; echo "int x;" >src/new/a.c'
expect 1 'src/model/a.c:1: model must not include config' \
    'echo "#include \"config/config.h\"" >src/model/a.c'
expect 1 'src/optim/a.c:1: optim must not include data' \
    'echo "#include \"data/d.h\"" >src/optim/a.c'

expect 1 'src/base/a.c:1: names a device' 'echo "int cuda_count(void);" >src/base/a.c'
expect 0 'lint: 4 files, no violations' \
    'printf "/* cuda */\nstatic const char *const name = \"cudnn\"; /* NCCL */\n" >src/base/a.c'
for header in cuda_runtime.h nccl.h mpi.h cudnn.h; do
    expect 1 'src/model/a.c:1: model knows no device' "echo '#include <$header>' >src/model/a.c"
done
expect 1 'src/model/a.c:1: model knows no device' \
    'printf "#ifdef PACER_HAVE_CUDA\n#endif\n" >src/model/a.c'
expect 1 'src/optim/a.c:1: optim knows no device' \
    'printf "#if defined(__CUDACC__)\n#endif\n" >src/optim/a.c'

expect 1 'src/base/a.h:1: does not compile alone' \
    'printf "#pragma once\nsize_t f(void);\n" >src/base/a.h'
expect 1 'src/base/a.h:1: does not compile alone' \
    'printf "struct s {\n    int a;\n};\n" >src/base/a.h'

for word in TODO FIXME XXX; do
    expect 1 'src/base/a.c:1: unfinished work' "echo '/* $word: later */' >src/base/a.c"
done
expect 0 'lint: 4 files' 'echo "static const char *name = \"run-XXXXXX\";" >src/base/a.c'
expect 1 'src/base/a.c:1: tab' 'printf "int\tx;\n" >src/base/a.c'
expect 1 'tests/a.c:1: space at the end' 'printf "int x; \n" >tests/a.c'
expect 1 'cmake/a.cmake:1: space at the end' 'printf "a() \n" >cmake/a.cmake'

# Pages that are made from the source.
page='mkdir -p include tools docs/reference; cp "$root/include/pacer.h" include/
    cp "$root/tools/api_reference.awk" tools/; cp "$root/docs/reference/api.md" docs/reference/'
expect 0 'lint: 4 files, no violations' "$page"
expect 1 'docs/reference/api.md:1: is not what include/pacer.h makes' \
    "$page"'; sed -i s/pacer_stop/pacer_halt/ include/pacer.h'

# clang-tidy, with the project's checks, over what a build compiles.
if command -v clang-tidy-14 clang-tidy >/dev/null; then
    build='mkdir build; cp "$root/.clang-tidy" .; touch CMakeLists.txt
        echo "[{\"directory\": \"$PWD\", \"command\": \"cc -c src/base/a.c\"," >build/compile_commands.json
        printf "  \"file\": \"%s\"\n}]\n" "$PWD/src/base/a.c" >>build/compile_commands.json'
    expect 0 'lint: 4 files, no violations' 'echo "int a;" >src/base/a.c;'"$build"
    expect 1 'src/base/a.c:1: potentially unintended semicolon' \
        'printf "%s\n" "void f(int); void g(int a) { if (a > 0); f(a); }" >src/base/a.c
        printf "DisableFormat: true\n" >.clang-format;'"$build"
    expect 0 'note: clang-tidy was not run: there is no build' \
        'cp "$root/.clang-tidy" .; touch CMakeLists.txt'
fi

[[ $failed == 0 ]] && echo "every rule of tools/lint.sh fails when it must"
exit $failed
