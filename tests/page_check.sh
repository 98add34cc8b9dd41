#!/usr/bin/env bash
# page_check.sh PAGE FOLDER CHARTS: opens an HTML page in a headless Chromium, narrow and wide, light and dark;
# leaves pictures in FOLDER. Fails when something is written to the console, when the page is wider than its window,
# or when it does not show CHARTS figures. Without a browser it says so and succeeds.
set -uo pipefail
page=$1 folder=$2 charts=$3
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo "no browser here: $(basename "$page") was not opened"
    exit 0
}
mkdir -p "$folder"
profile=$(mktemp -d) || exit 1
trap 'rm -rf "$profile"' EXIT

# wrap WIDTH: the page in a frame of that width, as a browser's window may not be that narrow, with a script that
# measures it and writes into data-seen: figures of a visible width, and whether the frame scrolls sideways.
wrap() {
    printf '<!doctype html><html><body style="margin:0"><iframe style="border:0;width:%dpx;height:2400px" srcdoc="' "$1"
    sed 's/&/\&amp;/g; s/"/\&quot;/g' "$page"
    cat <<'SCRIPT'
"></iframe><script>
const frame = document.querySelector("iframe")
frame.onload = () => {
    const inner = frame.contentDocument, root = inner.documentElement
    const visible = [...inner.querySelectorAll("figure:not(.table)")].filter(
        figure => figure.getBoundingClientRect().width > 200)
    document.documentElement.setAttribute("data-seen",
        visible.length + (root.scrollWidth <= root.clientWidth ? " fits" : " too wide"))
}
</script></body></html>
SCRIPT
}

show() { # WIDTH SCHEME
    local dark=1 common seen
    [[ $2 == dark ]] && dark=0
    common=(--headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$profile" --enable-logging=stderr
        --blink-settings=preferredColorScheme="$dark" --window-size="$1,2400")
    wrap "$1" >"$folder/frame.html"
    timeout 60 "$browser" "${common[@]}" --screenshot="$folder/$1-$2.png" "file://$folder/frame.html" \
        >"$folder/log" 2>&1
    [[ -s $folder/$1-$2.png ]] || { echo "$1 $2: no picture"; return 1; }
    seen=$(timeout 60 "$browser" "${common[@]}" --dump-dom "file://$folder/frame.html" 2>>"$folder/log" |
        sed -n 's/.*data-seen="\([^"]*\)".*/\1/p' | head -1)
    if grep "CONSOLE" "$folder/log"; then
        return 1
    fi
    [[ $seen == "$charts fits" ]] || { echo "$1 $2: saw '$seen', not '$charts fits'"; return 1; }
}

for width in 400 1400; do
    for scheme in light dark; do
        show $width $scheme || exit 1
    done
done
echo "opened in $("$browser" --version 2>/dev/null), 400 and 1400 wide, light and dark"
