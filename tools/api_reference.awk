# The reference of the C interface from its header:
#   awk -f tools/api_reference.awk include/pacer.h >docs/reference/api.md
# The header is read in chunks between blank lines. A chunk is a comment and the declarations it is
# about; "/* --- name --- */" begins a section. Lines of the preprocessor are left out, except for
# the version of the interface.

function plain(text) { gsub(/\*/, "\\*", text); return text }

# Declared names of a chunk, as its heading.
function add_name(name) {
    if (name != "" && !(name in named)) {
        named[name] = 1
        heading = heading (heading == "" ? "" : ", ") "`" name "`"
    }
}

function name_of(line) {
    if (line ~ /^#define /) { split(line, word, " "); add_name(word[2]) }
    if (line ~ /^    PACER_[A-Z_]+ *=/ && match(line, /PACER_[A-Z_]+/)) {
        enumerator = substr(line, RSTART, RLENGTH)
        if (in_enum++ == 0) add_name(enumerator)
    } else if (line == "};" && in_enum > 0) {
        heading = heading " to `" enumerator "`"
        in_enum = 0
    }
    if (line ~ /^typedef struct [a-z_]+ [a-z_]+;/) { split(line, word, " "); add_name(word[3]) }
    if (line ~ /^} [a-z_]+;/) { add_name(substr(line, 3, length(line) - 3)) }
    if (match(line, /pacer_[a-z_]+\(/)) add_name(substr(line, RSTART, RLENGTH - 1))
}

function flush() {
    if (code != "") {
        print "### " heading "\n"
        if (text != "") print text "\n"
        print "```c\n" code "```\n"
    }
    code = text = heading = ""
    delete named
}

BEGIN {
    print "# The C interface\n"
    print "<!-- Made from include/pacer.h by `make docs`; change that file instead. -->\n"
}

# The comment at the top of the file.
!started && /^\/\* libpacer/ { intro = 1 }
intro {
    line = $0
    last = sub(/ *\*\/$/, "", line)
    sub(/^(\/\*| \*) ?/, "", line)
    print plain(line)
    if (last) { intro = 0; print "" }
    next
}

/^extern "C"/ { started = 1; next }
/^#ifdef __cplusplus/ && started && seen { exit }
!started || /^#(if|else|endif)/ || /^#define PACER_EXPORT/ || /^}$/ { next }
/^$/ { flush(); next }
/^\/\* --- .* --- \*\/$/ {
    flush()
    sub(/^\/\* --- /, ""); sub(/ --- \*\/$/, "")
    print "## " toupper(substr($0, 1, 1)) substr($0, 2) "\n"
    next
}

# A comment of its own lines belongs to the declarations behind it.
code == "" && /^\/\*/ { comment = 1 }
comment {
    line = $0
    last = sub(/ *\*\/$/, "", line)
    sub(/^(\/\*| \*) ?/, "", line)
    text = text (text == "" ? "" : "\n") plain(line)
    if (last) comment = 0
    next
}

{
    seen = 1
    # Lines that go on with an exported function move left with it.
    if (sub(/^PACER_EXPORT /, "")) exported = 1
    else if (exported) sub(/^             /, "")
    name_of($0)
    code = code $0 "\n"
    if ($0 ~ /;/) exported = 0
}

END { flush() }
