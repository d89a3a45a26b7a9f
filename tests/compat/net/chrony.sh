# chronyd as a client of NTP that asks, sets and follows, and as a server; over the loopback interface. What it says has the numbers rounded.
. /compat/servers.sh
try() { local case=$1; shift; check "$case" timeout 60 sh -c "$1"; }
# A server whose clock is so many seconds ahead.
cat >ahead.py <<'EOP'
import socket, struct, sys, time
ahead, port = float(sys.argv[1]), int(sys.argv[2])
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("127.0.0.1", port))
def stamp():
    now = time.time() + ahead + 2208988800
    return struct.pack(">II", int(now), int(now % 1 * 2**32))
while True:
    question, who = sock.recvfrom(100)
    if len(question) >= 48:
        head = struct.pack(">BBBbII4s", 0x24, 2, question[2], -20, 0, 0, b"TEST")
        sock.sendto(head + stamp() + question[40:48] + stamp() + stamp(), who)
EOP
for each in '1000 1123' '-3600 1124' '0.02 1125'; do
    set -- $each
    background python3 ahead.py "$1" "$2"
    listens "$2" udp
done
said='s/^[0-9-]*T[0-9:]*Z //; /starting/d; s/\(wrong by -*[0-9]*\)\.[0-9]*/\1/; s/by -0 /by 0 /; s/999 seconds/1000 seconds/; s/-3599 seconds/-3600 seconds/'
ask() { echo "chronyd -u root $1 -t 30 'server 127.0.0.1 port $2 iburst maxsamples 4' 'cmdport 0' 'pidfile /tmp/c.pid' 2>&1 | sed '$said'"; }
try 'asks' "$(ask -Q 1123)"
try 'asks one that is behind' "$(ask -Q 1124)"
try 'asks one that is a little ahead' "$(ask -Q 1125)"
try 'asks nobody' "$(ask '-Q -t 3' 1126)"
try 'asks as a user' "setpriv --reuid 1000 --regid 1000 --clear-groups $(ask -Q 1123)"
lead='$(($(date +%s) - $(cut -d. -f1 /proc/uptime)))'
try 'sets the clock' "before=$lead; $(ask -q 1123); by=\$(($lead - before)); [ \$by -ge 999 -a \$by -le 1001 ] && echo forth"
try 'sets it back' "before=$lead; $(ask -q 1124); by=\$(($lead - before)); [ \$by -ge -3601 -a \$by -le -3599 ] && echo back"
serve_time() { chronyd -u root -x -d "$@" 'bindaddress 127.0.0.1' 'cmdport 0' >server.time 2>&1 & servers="$servers $!"; }
serve_time 'local stratum 4' 'allow 127.0.0.0/8' 'port 1127' 'pidfile /run/s.pid' 'bindcmdaddress /'
listens 1127 udp
try 'asks another chronyd' "$(ask -Q 1127)"
# A daemon that follows: it slews the clock, and tells of it.
mkdir -p /run/chrony
chronyd -u root -d 'server 127.0.0.1 port 1127 iburst minpoll -2 maxpoll -1 maxdelay 1' 'cmdport 0' 'pidfile /run/d.pid' 'bindcmdaddress /run/chrony/chronyd.sock' >daemon 2>&1 &
servers="$servers $!"
exists /run/chrony/chronyd.sock
tells() { echo "timeout 20 chronyc -h /run/chrony/chronyd.sock $1 2>&1"; }
try 'waits until it follows' "$(tells 'waitsync 100 0.1 0 0.1') | tail -1 | cut -c1-8 >/dev/null; $(tells tracking) | grep -e Stratum -e Leap -e 'Reference ID'"
try 'tells its sources' "$(tells '-c sources') | cut -d, -f1-4"
try 'tells of the server' "$(tells '-c ntpdata') | cut -d, -f1-8"
try 'does as it is told' "$(tells 'makestep'); $(tells 'offline'); $(tells 'online')"
try 'the clock is disciplined' 'python3 -c "
import ctypes, struct
state = ctypes.create_string_buffer(208)
print(ctypes.CDLL(None).adjtimex(state), struct.unpack_from(\"i\", state, 40)[0] & 0x40)"'
