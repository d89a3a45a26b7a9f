# socat.
. /compat/servers.sh
random 2000000 >big
echo hello >hello
try() { local case=$1; shift; check "$case" timeout 20 sh -c "$1"; }
serve 6001 socat TCP-LISTEN:6001,reuseaddr,fork EXEC:cat
try 'TCP' 'socat -t 5 - TCP:127.0.0.1:6001 <big | cksum'
try 'TCP, several at once' 'for i in 1 2 3 4 5; do socat -t 5 - TCP:127.0.0.1:6001 <big | cksum >r$i & done; wait; cat r1 r2 r3 r4 r5'
serve 6002 socat TCP6-LISTEN:6002,reuseaddr,fork EXEC:cat
try 'TCP6' 'socat -t 5 - "TCP6:[::1]:6002" <big | cksum'
try 'TCP4 to a TCP6 listener' 'socat -t 1 - TCP4:127.0.0.1:6002 <hello'
serve 6003 socat TCP6-LISTEN:6003,ipv6only=1,reuseaddr,fork EXEC:cat
try 'IPv6 only' 'socat -t 1 - TCP4:127.0.0.1:6003 <hello 2>&1 | sed "s/^.*E //"'
background socat UNIX-LISTEN:stream,fork EXEC:cat; exists stream
try 'UNIX' 'socat -t 5 - UNIX-CONNECT:stream <big | cksum'
background socat ABSTRACT-LISTEN:name,fork EXEC:cat
try 'ABSTRACT' 'sleep 0.3; socat -t 5 - ABSTRACT-CONNECT:name <big | cksum'
background socat UNIX-RECVFROM:datagrams,fork EXEC:cat; exists datagrams
try 'UNIX datagrams' 'socat -t 1 - UNIX-SENDTO:datagrams,bind=mine <hello'
background socat -u UDP4-RECVFROM:6004,fork SYSTEM:'cat >>udp'
listens 6004 udp
try 'UDP' 'socat -u - UDP4:127.0.0.1:6004 <hello; sleep 1; cat udp'
background socat UDP6-RECVFROM:6005,fork EXEC:cat; listens 6005 udp
try 'UDP6' 'socat -t 1 - "UDP6:[::1]:6005" <hello'
background socat UDP4-LISTEN:6006,fork EXEC:cat; listens 6006 udp
try 'UDP-LISTEN' 'socat -t 1 - UDP4:127.0.0.1:6006 <hello'
try 'UDP, nobody' 'socat -t 1 - UDP4:127.0.0.1:6099 <hello 2>&1 | sed "s/^.*E //; s/0x[0-9a-f]*/address/"'
background socat UDP4-RECVFROM:6007,ip-pktinfo,ip-recvttl,ip-recvtos,so-timestamp,fork SYSTEM:'env | grep SOCAT_ | grep -v -e PID -e VERSION -e TIMESTAMP -e PEERPORT -e PPID | sort'
listens 6007 udp
try 'what came with a datagram' 'socat -t 1 - UDP4:127.0.0.1:6007,ttl=33,tos=8 <hello'
background socat UDP4-RECVFROM:6008,ip-add-membership=239.1.2.3:127.0.0.1,fork EXEC:cat; listens 6008 udp
try 'multicast' 'socat -t 1 - UDP4-DATAGRAM:239.1.2.3:6008,ip-multicast-if=127.0.0.1,ip-multicast-loop=1 <hello'
background socat UDP4-RECVFROM:6009,broadcast,fork EXEC:cat; listens 6009 udp
try 'broadcast' 'socat -t 1 - UDP4-DATAGRAM:127.255.255.255:6009,broadcast <hello'
try 'EXEC by a pty' 'echo "echo tty; tty >/dev/null && echo yes; exit" | socat -t 2 - EXEC:sh,pty,setsid,ctty,raw,echo=0 | tail -2'
try 'EXEC by pipes' 'socat -t 2 - EXEC:"tr a-z A-Z",pipes <hello'
try 'EXEC by sockets' 'socat -t 2 - EXEC:"tr a-z A-Z",socketpair <hello'
try 'PIPE' 'socat -t 1 - PIPE <hello'
try 'files' 'socat -u OPEN:big CREATE:copy && cmp big copy && echo same'
try 'options' 'socat -t 1 - TCP:127.0.0.1:6001,nodelay,keepalive,keepidle=5,keepintvl=2,keepcnt=3,sndbuf=8192,rcvbuf=8192,linger=1,mss=600,bind=127.0.0.3 <hello'
try 'a mark and a priority' 'socat -t 1 - TCP:127.0.0.1:6001,so-priority=3,tos=16,ttl=9 <hello'
try 'nobody' 'socat - TCP:127.0.0.1:6099 <hello 2>&1 | sed "s/^.*E //"'
try 'so long at most' 'socat - TCP:192.0.2.1:80,connect-timeout=1 <hello 2>&1 | sed "s/^.*E //"'
try 'a local socket without anybody' 'socat - UNIX-CONNECT:nothing <hello 2>&1 | sed "s/^.*E //"'
background socat TCP-LISTEN:6010,reuseaddr,fork TCP:127.0.0.1:6001; listens 6010
try 'through another' 'socat -t 5 - TCP:127.0.0.1:6010 <big | cksum'
background socat TCP-LISTEN:6011,reuseaddr,fork UNIX-CONNECT:stream; listens 6011
try 'to a local socket' 'socat -t 5 - TCP:127.0.0.1:6011 <big | cksum'
openssl req -x509 -newkey rsa:2048 -nodes -keyout k.pem -out c.pem -subj /CN=localhost -days 9999 >&2 2>&1; cat k.pem c.pem >s.pem
serve 6012 socat OPENSSL-LISTEN:6012,cert=s.pem,verify=0,reuseaddr,fork EXEC:cat
try 'TLS' 'socat -t 5 - OPENSSL:localhost:6012,verify=0 <big | cksum'
try 'raw IP' '(sleep 1; echo raw) | socat -u - IP4-SENDTO:127.0.0.1:253 & timeout 3 socat -u IP4-RECVFROM:253 - | cksum; wait'
try 'half closed' 'echo abc | socat -t 3 - TCP:127.0.0.1:6001,shut-down'
try 'nothing happens' 'timeout 5 socat -T 1 TCP:127.0.0.1:6001 TCP:127.0.0.1:6001 </dev/null'
