# iperf3: whether all its ways work; figures are not compared.
. /compat/servers.sh
serve 5201 iperf3 -s
go() {
    local case=$1
    shift
    timeout 60 iperf3 -J -t 1 "$@" >out 2>&1
    echo "$case: $? $(python3 -c '
import json
r = json.load(open("out"))
e = r.get("end", {})
s = e.get("sum_received") or e.get("sum") or {}
print(r.get("error", ""), "bytes" if s.get("bytes", 0) > 100000 else "nothing", len(e.get("streams", [])), "streams")' 2>&1 | tail -1)"
    head -c 600 out >&2
}
go 'TCP' -c 127.0.0.1
go 'the other way' -c 127.0.0.1 -R
go 'both ways' -c 127.0.0.1 --bidir
go 'parallel' -c 127.0.0.1 -P 4
go 'IPv6' -c ::1
go 'UDP' -c 127.0.0.1 -u -b 20M
go 'UDP, the other way' -c 127.0.0.1 -u -b 20M -R
go 'UDP over IPv6' -c ::1 -u -b 20M
go 'zero copy' -c 127.0.0.1 -Z
go 'a window' -c 127.0.0.1 -w 64K
go 'segments' -c 127.0.0.1 -M 500
go 'no delay' -c 127.0.0.1 -N -l 1K
go 'so many bytes' -c 127.0.0.1 -n 1M
go 'a congestion control' -c 127.0.0.1 -C cubic
go 'another congestion control' -c 127.0.0.1 -C reno
go 'one that there is not' -c 127.0.0.1 -C none
go 'a rate' -c 127.0.0.1 -b 10M
go 'nobody' -c 127.0.0.1 -p 5999
