# netcat.
. /compat/servers.sh
random 5000000 >big
sum() { cksum <"$1"; }
one() { # CASE FILE SERVER… -- CLIENT…: the file goes from the client to the server.
    local case=$1 file=$2 s=()
    shift 2
    while [ "$1" != -- ]; do s+=("$1"); shift; done
    shift
    rm -f got
    "${s[@]}" >got 2>"$HOME/nc" </dev/null &
    local pid=$!
    sleep 0.5
    timeout 30 "$@" <"$file" >/dev/null 2>>"$HOME/nc"
    echo "$case, the client: $?"
    sleep 0.3
    kill "$pid" 2>/dev/null && echo "$case: the server still waits"
    wait "$pid"
    echo "$case: $(sum got), server $?"
}
one 'TCP' big nc -l -N 127.0.0.1 7001 -- nc -N 127.0.0.1 7001
one 'TCP over IPv6' big nc -6 -l -N ::1 7002 -- nc -6 -N ::1 7002
one 'both families' big nc -6 -l -N 7003 -- nc -N 127.0.0.1 7003
one 'a local socket' big nc -l -U -N sock -- nc -U -N sock
echo datagram >little
one 'UDP' little nc -u -l -w 1 127.0.0.1 7004 -- nc -u -w 1 127.0.0.1 7004
one 'UDP over IPv6' little nc -6 -u -l -w 1 ::1 7005 -- nc -6 -u -w 1 ::1 7005
one 'local datagrams' little nc -u -l -U -w 1 dgram -- nc -u -U -w 1 dgram
one 'small windows' big nc -l -N -I 4096 127.0.0.1 7006 -- nc -N -O 4096 127.0.0.1 7006
one 'from a port' big nc -l -N 127.0.0.1 7007 -- nc -N -p 7117 -s 127.0.0.5 127.0.0.1 7007
check 'a port without anybody' nc -z -w 1 127.0.0.1 7099
check 'without anybody, in words' sh -c 'nc -v -w 1 127.0.0.1 7099 2>&1'
check 'without anybody, UDP' sh -c 'echo x | nc -u -w 1 127.0.0.1 7099 2>&1'
nc -k -l 127.0.0.1 7010 >kept & servers="$servers $!"
listens 7010
check 'probes' sh -c 'nc -z -v 127.0.0.1 7008-7012 2>&1 | sed "s/\[.*\]//"'
for i in 1 2 3; do echo "line $i" | nc -N 127.0.0.1 7010; done
sleep 0.3
check 'one after the other' cat kept
(echo back; sleep 0.3) | nc -l -N 127.0.0.1 7011 >/dev/null & servers="$servers $!"
listens 7011
check 'the other way' sh -c 'nc -d 127.0.0.1 7011'
check 'a name' sh -c 'echo x | nc -N -v localhost 7010 2>&1 | tail -1 | sed "s/\[.*\]//"'
check 'not this network' sh -c 'nc -v -w 1 192.0.2.1 80 2>&1'
check 'not this one either' sh -c 'nc -6 -v -w 1 2001:db8::1 80 2>&1'
check 'no such name' sh -c 'nc -n -v -w 1 nobody.invalid 80 2>&1'
check 'a reserved port' sh -c 'setpriv --reuid 1000 --regid 1000 --clear-groups nc -l 127.0.0.1 80 2>&1'
