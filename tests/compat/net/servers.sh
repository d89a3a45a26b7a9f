# For the scripts of `./cairn compat net`: servers behind them, each on a port of the loopback interface.
. /compat/common.sh
export no_proxy='*'
# What update-alternatives would have made.
[ -e /bin/nc ] || ln -s nc.openbsd /bin/nc
[ -e /usr/bin/traceroute ] || ln -s traceroute.db /usr/bin/traceroute

# listens PORT [tcp|udp]: waits until somebody has the port. (The port is looked for in /proc: a connection would be one that the server sees.)
listens() {
    local state=0A files="/proc/net/tcp /proc/net/tcp6" i
    [ "${2:-tcp}" = udp ] && state=07 files="/proc/net/udp /proc/net/udp6"
    for i in $(seq 200); do
        grep -qhs "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") [0-9A-F]*:0000 $state" $files && return
        sleep 0.05
    done
    echo "nobody listens at $1"
}

# exists FILE: waits until it is there.
exists() {
    local i
    for i in $(seq 200); do
        [ -e "$1" ] && return
        sleep 0.05
    done
    echo "there is no $1"
}

# serve PORT COMMAND…: a server in the background, with what it says in a file. Its process is $server.
serve() {
    local port=$1
    shift
    "$@" >"$HOME/server.$port" 2>&1 </dev/null &
    server=$!
    servers="$servers $server"
    listens "$port"
}

# background COMMAND…: the same without a port that could be waited for.
background() {
    "$@" >"$HOME/background" 2>&1 </dev/null &
    server=$!
    servers="$servers $server"
}

# What is left ends with the script, and what the servers said is kept.
finish() {
    kill $servers 2>/dev/null
    tail -n 20 "$HOME"/server.* "$HOME"/background >&2 2>/dev/null
}
servers=
trap finish EXIT

# random BYTES: the same bytes each time.
random() {
    python3 -c 'import random, sys; sys.stdout.buffer.write(random.Random(1).randbytes(int(sys.argv[1])))' "$1"
}
