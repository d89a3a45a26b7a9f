# memcached, by its text protocol.
. /compat/servers.sh
serve 11211 memcached -u root -l 127.0.0.1,::1 -p 11211 -U 11211 -t 4 -m 32 -c 200
listens 11211 udp
say() { local case=$1 from=$2; shift 2; check "$case" sh -c "printf '$*' | timeout 10 nc -N $from | tr -d '\r'"; }
at='127.0.0.1 11211'
say 'set' "$at" 'set a 0 0 5\r\nhello\r\n'
say 'get' "$at" 'get a\r\n'
say 'over IPv6' '::1 11211' 'get a\r\n'
say 'several' "$at" 'set n 0 0 1\r\n1\r\nincr n 41\r\nget n a none\r\ndelete n\r\nget n\r\n'
say 'cas' "$at" 'gets none\r\nadd b 0 0 1\r\nx\r\nadd b 0 0 1\r\ny\r\nappend b 0 0 1\r\nz\r\nget b\r\n'
say 'what it does not know' "$at" 'nonsense\r\n'
say 'expired' "$at" 'set e 0 -1 1\r\nx\r\nget e\r\n'
check 'UDP' python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5)
s.sendto(b"\0\1\0\0\0\1\0\0get a\r\n", ("127.0.0.1", 11211)); print(s.recv(1000))'
check 'many' python3 -c '
import socket, threading
bad = []
def client(number):
    s = socket.create_connection(("127.0.0.1", 11211)); f = s.makefile("rwb")
    for i in range(200):
        value = b"%d-%d" % (number, i)
        f.write(b"set k%d 0 0 %d\r\n%s\r\nget k%d\r\n" % (number, len(value), value, number)); f.flush()
        got = [f.readline() for _ in range(4)]
        if got[2].strip() != value: bad.append(got)
all = [threading.Thread(target=client, args=(n,)) for n in range(10)]
[t.start() for t in all]; [t.join() for t in all]
print(len(bad))'
check 'a megabyte' python3 -c '
import socket
s = socket.create_connection(("127.0.0.1", 11211)); f = s.makefile("rwb")
big = bytes(range(256)) * 3900
f.write(b"set big 0 0 %d\r\n" % len(big) + big + b"\r\nget big\r\n"); f.flush()
print(f.readline(), f.readline(), f.read(len(big)) == big)'
check 'more than may connect' python3 -c '
import socket
all = []
for i in range(300):
    s = socket.socket(); s.settimeout(0.5); s.connect(("127.0.0.1", 11211)); all.append(s)
print(len(all))'
check 'statistics' sh -c "printf 'stats\\r\\n' | timeout 10 nc -N $at | grep -c STAT"
kill -INT "$server"; wait "$server"; echo "its end: $?"
background memcached -u root -s "$PWD/sock" -a 777; exists sock
check 'a local socket' sh -c "printf 'set a 0 0 1\r\nx\r\nget a\r\n' | timeout 10 nc -N -U $PWD/sock | tr -d '\r'"
