# For the scripts of `./cairn compat programs`: what they print on standard output are lines `CASE: RESULT`.
export LC_ALL=C.UTF-8 TZ=UTC

# check CASE COMMAND…: its status, and what it printed: in full where that is short, otherwise as a sum.
check() {
    local case=$1 status said
    shift
    "$@" >"$HOME/.said" 2>"$HOME/.complaints" </dev/null
    status=$?
    if [ "$(wc -lc <"$HOME/.said" | awk '{ print ($1 <= 1 && $2 <= 100) }')" = 1 ]; then
        said=$(cat "$HOME/.said")
    else
        said="$(wc -l <"$HOME/.said") lines, sum $(cksum <"$HOME/.said" | cut -d' ' -f1)"
    fi
    echo "$case: status $status, $said"
    { echo "== $case"; tail -c 2000 "$HOME/.said"; tail -c 2000 "$HOME/.complaints"; } >&2
}

# In a folder of its own, which is empty.
export HOME=$PWD/home
mkdir -p home work
cd work
