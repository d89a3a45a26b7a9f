# openssh: sshd, and its clients.
. /compat/servers.sh
grep -q '^sshd:' /etc/passwd || echo 'sshd:x:105:65534::/run/sshd:/usr/sbin/nologin' >>/etc/passwd
mkdir -p /run/sshd .ssh; chmod 755 /run/sshd
ssh-keygen -q -t ed25519 -N '' -f host
ssh-keygen -q -t ed25519 -N '' -f key
ssh-keygen -q -t rsa -b 2048 -N '' -f rsa
mkdir -p /root/.ssh; chmod 700 /root /root/.ssh
cat key.pub rsa.pub >/root/.ssh/authorized_keys
mkdir -p ~user/.ssh; cat key.pub >~user/.ssh/authorized_keys; chown -R 1000:1000 ~user/.ssh; chmod 700 ~user ~user/.ssh; chmod 600 ~user/.ssh/authorized_keys
cat >sshd_config <<C
Port 2222
ListenAddress 127.0.0.1
ListenAddress ::1
HostKey $PWD/host
PidFile $PWD/pid
UsePAM no
PermitRootLogin yes
PrintMotd no
PrintLastLog no
Subsystem sftp /usr/lib/openssh/sftp-server
StreamLocalBindUnlink yes
C
cat >config <<C
Host t t6 u r
    Port 2222
    HostName 127.0.0.1
    User root
    IdentityFile $PWD/key
    StrictHostKeyChecking no
    UserKnownHostsFile $PWD/known
    LogLevel ERROR
Host t6
    HostName ::1
C
sed -i 's/User root/User root/' config
check 'the configuration' /usr/sbin/sshd -t -f "$PWD/sshd_config"
serve 2222 /usr/sbin/sshd -D -e -f "$PWD/sshd_config"
random 4000000 >big
S="ssh -F $PWD/config"
try() { local case=$1; shift; check "$case" timeout 60 sh -c "$1"; }
try 'a command' "$S t 'id -u; pwd'"
try 'its status' "$S t 'exit 42'"
try 'over IPv6' "$S t6 'echo \$SSH_CONNECTION | cut -d\" \" -f1,3,4'"
try 'another user' "$S -l user t 'id -un; echo \$HOME'"
try 'an RSA key' "$S -i $PWD/rsa -o IdentitiesOnly=yes t echo yes"
try 'no key' "$S -i /dev/null -o IdentitiesOnly=yes -o IdentityFile=none -o PreferredAuthentications=publickey t echo yes"
try 'a signal' "$S t 'kill -TERM \$\$'"
try '4 MB in' "$S t cksum <big"
try '4 MB out' "$S t cat $PWD/big | cksum"
try 'both' "$S t cat <big | cksum"
try 'chacha' "$S -c chacha20-poly1305@openssh.com t cat $PWD/big | cksum"
try 'aes-ctr and hmac' "$S -c aes128-ctr -m hmac-sha2-256 t cat $PWD/big | cksum"
try 'compressed' "seq 200000 | $S -C t cksum"
try 'standard error' "$S t 'echo out; echo err >&2' 2>&1 >/dev/null"
try 'a terminal' "$S -tt t 'tty >/dev/null && echo tty; stty size' </dev/null | tr -d '\r'"
try 'a login shell' "echo 'echo \$0 \$TERM; exit 3' | $S t 2>&1"
try 'environment' "LC_TEST=1 $S -o SendEnv=LC_TEST t 'echo \$USER \$SHELL'"
try 'scp to' "scp -q -F config big t:$PWD/copy1 && cmp big copy1"
try 'scp from' "scp -q -F config t:$PWD/big copy2 && cmp big copy2"
mkdir -p tree/a/b; seq 100 >tree/a/f; seq 200 >tree/a/b/g; ln -s f tree/a/l
try 'scp of a tree' "scp -q -r -p -F config tree t:$PWD/tree2 && diff -r tree tree2 && echo same"
try 'scp by the old protocol' "scp -O -q -F config t:$PWD/big copy3 && cmp big copy3"
cat >batch <<C
cd $PWD
mkdir box
put big box/big
ls -1 box
rename box/big box/large
get box/large fetched
chmod 600 box/large
symlink large box/link
rm box/link
rm box/large
rmdir box
df
C
try 'sftp' "sftp -q -F config -b batch t >/dev/null; cmp big fetched"
serve 8000 python3 -m http.server 8000 --bind 127.0.0.1 --directory "$PWD/tree/a"
$S -f -N -L 3001:127.0.0.1:8000 -L "[::1]:3002:127.0.0.1:8000" -L "$PWD/local:127.0.0.1:8000" -R 3003:127.0.0.1:8000 -D 3004 -o ExitOnForwardFailure=yes t; echo "forwarding: $?"
for p in 3001 3002 3003 3004; do listens $p; done
try 'a local port' 'curl -s http://127.0.0.1:3001/f'
try 'a local port of IPv6' "curl -s -g 'http://[::1]:3002/f'"
try 'a local socket' "curl -s --unix-socket local http://x/f"
try 'a remote port' 'curl -s http://127.0.0.1:3003/f'
try 'SOCKS' 'curl -s --socks5-hostname 127.0.0.1:3004 http://localhost:8000/f'
try 'SOCKS 4' 'curl -s --socks4 127.0.0.1:3004 http://127.0.0.1:8000/f'
try 'many through it' "curl -s -Z -o /dev/null -w '%{http_code}\n' 'http://127.0.0.1:3001/f?[1-20]'"
pkill -f 'ssh.*3001:127' ; sleep 0.3
try 'through another' "$S -J t -o ProxyCommand=none t echo yes 2>/dev/null; $S -o ProxyCommand='$S -W 127.0.0.1:2222 t' t echo jumped"
try 'standard streams to a port' "printf 'GET /f HTTP/1.0\r\n\r\n' | $S -W 127.0.0.1:8000 t | tail -1"
try 'one connection for several' "$S -M -S ctl -f -N t; $S -S ctl t echo one; $S -S ctl t cat <big | cksum; $S -S ctl -O check t 2>&1 | sed 's/pid=[0-9]*/pid/'; $S -S ctl -O exit t 2>&1"
try 'an agent' "eval \$(ssh-agent) >/dev/null; ssh-add -q key; ssh-add -l | cut -d' ' -f1; $S -A -o IdentityFile=none t 'ssh-add -l | wc -l'; ssh-agent -k >/dev/null"
try 'five at once' "for i in 1 2 3 4 5; do $S t echo \$i >o\$i & done; wait; cat o1 o2 o3 o4 o5"
try 'keys of a host' "ssh-keyscan -p 2222 -t ed25519 127.0.0.1 2>/dev/null | wc -l"
try 'a wrong host key' "ssh-keygen -q -t ed25519 -N '' -f other; echo \"[127.0.0.1]:2222 \$(cut -d' ' -f1,2 other.pub)\" >wrong; $S -o UserKnownHostsFile=wrong -o StrictHostKeyChecking=yes t echo no"
