#!/bin/sh
# How "works on a fresh machine" is checked: a minimal Debian or Ubuntu (debootstrap) gets a clone of the project and runs the README's commands in it.
#
#   tests/fresh-machine.sh [--way rustup|debian] [--suite bookworm|trixie|noble] [--tests FILTER]... [--keep] [FOLDER]
#
# Needs root, debootstrap and the network; some 8 GiB under FOLDER (default: a new one under /var/tmp; a system that is there already is used again). What is
# checked: `./cairn exec` runs a program with nothing set up before, `./cairn run` reaches a prompt and `poweroff` ends it, a second run with nothing changed starts
# the guest within 3 s, and `./cairn test` passes; with --tests (repeatable) only `./cairn test FILTER`, with --tests none no tests.
# --way rustup installs rustup first, without any toolchain; --way debian has the distribution's packages only.
# For noble: debootstrap wants the keyring of Ubuntu's package ubuntu-keyring; KEYRING=FILE says where it is if not in /usr/share/keyrings.
# The last line is `fresh machine: N passed, N failed`.
set -eu

way=debian suite=bookworm keep=no folder= tests=
while [ $# -gt 0 ]; do
    case $1 in
    --way) way=$2; shift 2 ;;
    --suite) suite=$2; shift 2 ;;
    --tests) tests="$tests $2"; shift 2 ;;
    --keep) keep=yes; shift ;;
    -*) sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) folder=$1; shift ;;
    esac
done
# Where the distribution's packages are, by its suite: mirror, components, and the pockets with newer packages than the release's.
case $suite in
noble | jammy | plucky | questing)
    # Debian's debootstrap may not know the name yet; all suites of Ubuntu are made alike.
    mirror=http://archive.ubuntu.com/ubuntu script=gutsy components=main,universe keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg
    newer="deb $mirror $suite-updates main universe
deb http://security.ubuntu.com/ubuntu $suite-security main universe"
    ;;
*)
    mirror=http://deb.debian.org/debian script=sid components=main keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    # Debian 12 has a Rust that is new enough there.
    newer="deb http://deb.debian.org/debian-security $suite-security main"
    ;;
esac
keyring=${KEYRING:-$keyring}
project=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
[ "$(id -u)" = 0 ] || { echo "fresh machine: this needs root (it makes a root file system and enters it)" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "fresh machine: apt-get install debootstrap, then try again" >&2; exit 2; }
[ -e "$keyring" ] || { echo "fresh machine: no keyring $keyring to check the packages of $suite with" >&2; exit 2; }
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

if ! [ -e "$root/etc/apt/sources.list.d/newer.list" ]; then
    say "a minimal $suite in $root"
    debootstrap --variant=minbase --keyring="$keyring" --components="$components" --include=git,ca-certificates "$suite" "$root" "$mirror" "$script" >"$folder/debootstrap.log" 2>&1 ||
        { tail -n 5 "$folder/debootstrap.log" >&2; say "debootstrap failed; its log: $folder/debootstrap.log"; exit 1; }
    printf '%s\n' "$newer" >"$root/etc/apt/sources.list.d/newer.list"
fi
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t devpts devpts "$root/dev/pts" 2>/dev/null || true
cp /etc/resolv.conf "$root/etc/resolv.conf"
# The network as it is here: also where a proxy with a certificate authority of its own is in between. (As local certificates they outlive an update of the package.)
cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$root/usr/local/share/ca-certificates/host.crt" 2>/dev/null || true
inside update-ca-certificates >"$folder/certificates.log" 2>&1 || true
inside apt-get update >"$folder/apt.log" 2>&1 || { tail -n 5 "$folder/apt.log" >&2; say "no package lists; log: $folder/apt.log"; exit 1; }

if [ "$way" = rustup ]; then
    # What a Rust programmer's machine has: rustup and nothing of it that Cairn needs.
    say "installing rustup in it"
    inside apt-get install -y --no-install-recommends curl >>"$folder/apt.log" 2>&1
    inside sh -c 'cd /root && curl -sSfO https://static.rust-lang.org/rustup/dist/x86_64-unknown-linux-gnu/rustup-init && chmod +x rustup-init &&
        ./rustup-init -y -q --profile minimal --default-toolchain none' >>"$folder/apt.log" 2>&1 ||
        { say "rustup could not be installed; log: $folder/apt.log"; exit 1; }
fi

rm -rf "$root/root/cairn"
git -c advice.detachedHead=false clone -q "$project" "$root/root/cairn"
say "$(git -C "$root/root/cairn" log -1 --format='%h %s'); Rust the way of $way"

# The README's commands, each as a newcomer would type it.
first_exec() {
    output=$(inside sh -c 'cd /root/cairn && ./cairn exec -- sh -c "echo hello; uname -s; exit 7"' 2>"$folder/exec.log") && status=0 || status=$?
    [ "$status" = 7 ] && [ "$output" = "hello
Linux" ] || { tail -n 20 "$folder/exec.log" >&2; say "status $status, output: $output"; return 1; }
}
# appears TEXT: in the output of `run`, within ten minutes.
appears() {
    left=1200
    until grep -q -- "$1" "$folder/run.log" 2>/dev/null; do
        left=$((left - 1))
        [ "$left" -gt 0 ] && ! [ -e "$folder/ended" ] || return 1
        sleep 0.5
    done
}
run_and_type() {
    : >"$folder/run.log"
    rm -f "$folder/ended"
    {
        appears '~ #' && printf 'echo a$((40 + 2))z\r'
        appears a42z && printf 'poweroff\r'
        # The end of its input must not be what ends it.
        until [ -e "$folder/ended" ]; do sleep 0.5; done
    } | {
        inside timeout 1200 sh -c 'cd /root/cairn && ./cairn run' >"$folder/run.log" 2>&1 && status=0 || status=$?
        : >"$folder/ended"
        [ "$status" = 0 ] && grep -q a42z "$folder/run.log"
    } || { tail -n 20 "$folder/run.log" >&2; return 1; }
}
# The best of three, because a machine does other things, too.
second_exec() {
    for attempt in 1 2 3; do
        begun=$(date +%s%N)
        output=$(inside sh -c 'cd /root/cairn && ./cairn exec -- cat /proc/uptime' 2>"$folder/exec2.log") || return 1
        took=$((($(date +%s%N) - begun) / 1000000))
        guest=$(printf '%s\n' "$output" | awk '{ printf "%d", $1 * 1000 }')
        say "a second run, attempt $attempt: $took ms, of which $guest ms in the guest"
        [ $((took - guest)) -gt 3000 ] || return 0
    done
    return 1
}
# Its results go to a log of their own; what failed is shown.
run_tests() {
    # shellcheck disable=SC2086 # a filter or nothing
    inside sh -c 'cd /root/cairn && exec ./cairn test "$@"' sh ${1:-} >"$folder/test.log" 2>&1 && status=0 || status=$?
    grep -A 12 '^FAIL\|^skip' "$folder/test.log" >&2 || true
    tail -n 1 "$folder/test.log" >&2
    return $status
}
check "a command with nothing set up before" first_exec
check "a shell that can be typed into and switched off" run_and_type
check "a second run starts the guest within 3 s" second_exec
case $tests in
'') check "all tests" run_tests ;;
*none*) ;;
*) for filter in $tests; do check "tests with $filter" run_tests "$filter"; done ;;
esac
echo "fresh machine: $passed passed, $failed failed"
[ "$failed" = 0 ]
