#!/bin/sh
# How "works on a fresh machine" is checked: a minimal Debian (debootstrap) gets a clone of the project and runs the README's commands in it.
#
#   tests/fresh-machine.sh [--way rustup|debian] [--suite bookworm|trixie] [--keep] [FOLDER]
#
# Needs root, debootstrap and the network; some 4 GiB under FOLDER (default: a new one under /var/tmp). What is checked: `./cairn exec` runs a program with
# nothing set up before, `./cairn run` reaches a prompt and `poweroff` ends it, and a second run with nothing changed starts the guest within 3 s.
# The last line is `fresh machine: N passed, N failed`.
set -eu

way=debian suite=bookworm keep=no folder=
while [ $# -gt 0 ]; do
    case $1 in
    --way) way=$2; shift 2 ;;
    --suite) suite=$2; shift 2 ;;
    --keep) keep=yes; shift ;;
    -*) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) folder=$1; shift ;;
    esac
done
project=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
[ "$(id -u)" = 0 ] || { echo "fresh machine: this needs root (it makes a root file system and enters it)" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "fresh machine: apt-get install debootstrap, then try again" >&2; exit 2; }
[ -n "$folder" ] || folder=$(mktemp -d /var/tmp/cairn-fresh-XXXXXX)
mkdir -p "$folder"
root=$folder/root
passed=0 failed=0

say() { printf 'fresh machine: %s\n' "$*" >&2; }
check() { # check NAME COMMAND...
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        say "ok    $name"
    else
        failed=$((failed + 1))
        say "FAIL  $name"
    fi
}

leave() {
    for mount in dev/pts dev proc; do
        umount "$root/$mount" 2>/dev/null || true
    done
    # Never remove what is still mounted below.
    if [ "$keep" = no ] && ! grep -q " $root" /proc/mounts; then
        rm -rf --one-file-system "$root"
        rmdir "$folder" 2>/dev/null || true
    fi
}
trap leave EXIT
trap 'exit 130' INT TERM

inside() { chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LANG=C "$@"; }

if ! [ -e "$root/etc/debian_version" ]; then
    say "a minimal Debian $suite in $root"
    debootstrap --variant=minbase --include=git,ca-certificates,gpgv,debian-archive-keyring "$suite" "$root" http://deb.debian.org/debian >"$folder/debootstrap.log" 2>&1 ||
        { tail -n 5 "$folder/debootstrap.log" >&2; say "debootstrap failed; its log: $folder/debootstrap.log"; exit 1; }
fi
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t devpts devpts "$root/dev/pts" 2>/dev/null || true
cp /etc/resolv.conf "$root/etc/resolv.conf"
# The network as it is here: also where a proxy with a certificate authority of its own is in between.
cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$root/etc/ssl/certs/ca-certificates.crt" 2>/dev/null || true
# Newer packages than the release's: where Debian 12 has a Rust that is new enough.
echo "deb http://deb.debian.org/debian-security $suite-security main" >"$root/etc/apt/sources.list.d/security.list"
inside apt-get update >"$folder/apt.log" 2>&1 || { tail -n 5 "$folder/apt.log" >&2; say "no package lists; log: $folder/apt.log"; exit 1; }

if [ "$way" = rustup ]; then
    # What a Rust programmer's machine has: rustup and nothing of it that Cairn needs.
    say "installing rustup in it"
    inside apt-get install -y --no-install-recommends curl >>"$folder/apt.log" 2>&1
    inside sh -c 'curl -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --default-toolchain none' >>"$folder/apt.log" 2>&1 ||
        { say "rustup could not be installed; log: $folder/apt.log"; exit 1; }
fi

rm -rf "$root/root/cairn"
git clone -q "$project" "$root/root/cairn"
say "$(git -C "$root/root/cairn" log -1 --format='%h %s'); Rust the way of $way"

# The README's commands, each as a newcomer would type it.
first_exec() {
    output=$(inside sh -c 'cd /root/cairn && ./cairn exec -- sh -c "echo hello; uname -s; exit 7"' 2>"$folder/exec.log") && status=0 || status=$?
    [ "$status" = 7 ] && [ "$output" = "hello
Linux" ] || { tail -n 20 "$folder/exec.log" >&2; say "status $status, output: $output"; return 1; }
}
run_and_type() {
    { sleep 25; printf 'echo a$((40 + 2))z\r'; sleep 5; printf 'poweroff\r'; sleep 10; } |
        inside timeout 120 sh -c 'cd /root/cairn && ./cairn run' >"$folder/run.log" 2>&1 || { tail -n 20 "$folder/run.log" >&2; return 1; }
    grep -q a42z "$folder/run.log"
}
second_exec() {
    begun=$(date +%s%N)
    output=$(inside sh -c 'cd /root/cairn && ./cairn exec -- cat /proc/uptime' 2>"$folder/exec2.log") || return 1
    took=$((($(date +%s%N) - begun) / 1000000))
    guest=$(printf '%s\n' "$output" | awk '{ printf "%d", $1 * 1000 }')
    say "a second run: $took ms, of which $guest ms in the guest"
    [ $((took - guest)) -le 3000 ]
}
check "a command with nothing set up before" first_exec
check "a shell that can be typed into and switched off" run_and_type
check "a second run starts the guest within 3 s" second_exec
echo "fresh machine: $passed passed, $failed failed"
[ "$failed" = 0 ]
