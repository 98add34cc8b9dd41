#!/usr/bin/env bash
# pacer serve as a command: its address, its end by a signal, wrong folders and addresses.
source "$(dirname "$0")/support/program.sh"

expect 2 "serve needs an argument" serve
if "$PACER" serve --port 0 nowhere 2>&1 | grep -q "this build has no server"; then
    echo "skipped: this build has no server"
    exit 0
fi
mkdir runs
touch file
expect 2 "nowhere: not a folder" serve --port 0 nowhere
expect 2 "file: not a folder" serve --port 0 runs file
expect 2 "--listen no.such.host.invalid" serve --port 0 --listen no.such.host.invalid runs

# started OPTION...: a server in the background, its address in $address.
started() {
    rm -f address
    "$PACER" serve --port 0 "$@" runs >address 2>err &
    server=$!
    await '[[ -s address ]]'
    address=$(<address)
}
# ended SIGNAL: it ends with status 0.
ended() {
    kill -"$1" $server
    wait $server
    status=$?
    [[ $status == 0 ]] || fail "after $1: exit status $status"
}
started
[[ $address =~ ^http://127\.0\.0\.1:[0-9]+/$ ]] || fail "address $address"
exec 3<>"/dev/tcp/127.0.0.1/$(grep -o '[0-9]*/$' <<<"$address" | tr -d /)"
printf 'GET /api/list HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
grep -q '"entries":\[\]' <&3 || fail "no list of no runs"
exec 3>&-
ended INT
started --listen 127.0.0.1
[[ $address =~ ^http://127\.0\.0\.1:[0-9]+/\?token=[0-9a-f]{32}$ ]] || fail "address $address"
ended TERM
exit $failed
