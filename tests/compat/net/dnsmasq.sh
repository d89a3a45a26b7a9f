# dnsmasq, asked by dig and by the C library.
. /compat/servers.sh
grep -q '^dnsmasq:' /etc/passwd || echo 'dnsmasq:x:106:65534::/var/lib/misc:/usr/sbin/nologin' >>/etc/passwd
cat >conf <<C
port=5353
listen-address=127.0.0.1
listen-address=::1
bind-interfaces
no-resolv
no-hosts
user=root
group=root
local=/example/
address=/wild.example/192.0.2.7
host-record=one.example,192.0.2.1,2001:db8::1
cname=alias.example,one.example
mx-host=example,mail.example,10
txt-record=text.example,some text
srv-host=_x._tcp.example,one.example,99,1,2
ptr-record=1.2.0.192.in-addr.arpa,one.example
pid-file=$PWD/pid
C
for i in $(seq 60); do echo "host-record=many.example,10.0.1.$i"; done >>conf
serve 5353 dnsmasq -k -C "$PWD/conf"
listens 5353 udp
d() { local case=$1; shift; check "$case" timeout 20 dig -p 5353 +noall +answer +time=2 +tries=1 "$@"; }
d 'A' @127.0.0.1 one.example
d 'AAAA' @127.0.0.1 one.example AAAA
d 'over IPv6' @::1 one.example
d 'TCP' @127.0.0.1 +tcp one.example
d 'TCP over IPv6' @::1 +tcp one.example
d 'alias' @127.0.0.1 alias.example
d 'MX' @127.0.0.1 example MX
d 'TXT' @127.0.0.1 text.example TXT
d 'SRV' @127.0.0.1 _x._tcp.example SRV
d 'PTR' @127.0.0.1 -x 192.0.2.1
d 'wild' @127.0.0.1 a.b.wild.example
check 'many' sh -c 'dig -p 5353 +short @127.0.0.1 many.example | sort | cksum'
check 'many, too long for 512 bytes' sh -c 'dig -p 5353 +noedns +short @127.0.0.1 many.example | sort | cksum'
check 'many, cut' sh -c 'dig -p 5353 +noedns +ignore @127.0.0.1 many.example | grep -o "flags: [a-z ]*"'
check 'no such name' sh -c 'dig -p 5353 @127.0.0.1 none.example | grep -o "status: [A-Z]*"'
check 'not its own' sh -c 'dig -p 5353 @127.0.0.1 elsewhere.test | grep -o "status: [A-Z]*"'
check 'nobody there' sh -c 'dig -p 5354 +time=1 +tries=1 @127.0.0.1 one.example | grep -v "^$" | grep -v DiG'
check 'fifty' sh -c 'for i in $(seq 50); do echo "one.example A"; done >names; dig -p 5353 @127.0.0.1 +short -f names | sort | uniq -c'
kill "$server"; wait "$server" 2>/dev/null
sed -i 's/^port=.*/port=53/' conf
serve 53 dnsmasq -k -C "$PWD/conf"
cp /etc/resolv.conf saved 2>/dev/null
echo 'nameserver 127.0.0.1' >/etc/resolv.conf
check 'getent' getent ahosts one.example
check 'getent of an alias' getent hosts alias.example
check 'getent of an address' getent hosts 192.0.2.1
check 'getent of nobody' getent hosts none.example
check 'python' python3 -c 'import socket; print(sorted({a[4][0] for a in socket.getaddrinfo("one.example", 80)}))'
check 'host' host one.example
check 'nslookup' sh -c 'nslookup one.example | grep Address'
check 'curl' sh -c 'curl -s --max-time 3 -w "%{errormsg}" http://none.example/'
rm -f /etc/resolv.conf; [ -e saved ] && cp saved /etc/resolv.conf
kill -TERM "$server"; wait "$server"; echo "its end: $?"
