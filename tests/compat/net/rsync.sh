# rsync: its daemon, and over ssh.
. /compat/servers.sh
mkdir -p from/a/b module
for i in $(seq 60); do seq $((i * 50)) >from/a/f$i; done
random 4000000 >from/a/b/big
ln -s f1 from/a/link; ln from/a/f2 from/a/hard; chmod 640 from/a/f3; touch -d 2001-02-03 from/a/f4
cat >rsyncd.conf <<C
port = 8730
address = 127.0.0.1
use chroot = yes
uid = 0
gid = 0
log file = $PWD/log
[m]
path = $PWD/module
read only = no
[closed]
path = $PWD/module
auth users = somebody
secrets file = $PWD/secrets
C
echo somebody:secret >secrets; chmod 600 secrets
serve 8730 rsync --daemon --no-detach --config="$PWD/rsyncd.conf"
at=rsync://127.0.0.1:8730
try() { local case=$1; shift; check "$case" timeout 60 sh -c "$1"; }
list() { (cd "$1" && find . -printf '%p %y %m %s %n %l\n' | sort); }
try 'its modules' "rsync $at/"
try 'to it' "rsync -aH from/ $at/m/"
check 'what came' list module
check 'the same' diff -r from module
try 'nothing to do' "rsync -aHi from/ $at/m/"
printf changed | dd of=from/a/b/big bs=1 seek=2000000 conv=notrunc 2>/dev/null
rm from/a/f9; echo new >from/a/new
try 'what changed' "rsync -aHi --delete from/ $at/m/"
try 'how much was sent' "touch from/a/b/big; rsync -a --stats --no-W from/ $at/m/ | grep -c 'Matched data: [1-9]'"
try 'from it' "rsync -aHz $at/m/ back/ && diff -r from back && echo same"
try 'a limited rate' "rsync -a --bwlimit=8M $at/m/a/b/big . && cmp big from/a/b/big"
try 'no password' "rsync $at/closed/ </dev/null 2>&1 | tail -1"
try 'a password' "RSYNC_PASSWORD=secret rsync rsync://somebody@127.0.0.1:8730/closed/ | wc -l"
try 'nobody there' "rsync rsync://127.0.0.1:8731/ 2>&1 | head -1"
try 'what is not there' "rsync $at/none/ 2>&1 | head -1"
try 'within the machine' "rsync -aH from/ local/ && diff -r from local && echo same"
grep -q '^sshd:' /etc/passwd || echo 'sshd:x:105:65534::/run/sshd:/usr/sbin/nologin' >>/etc/passwd
mkdir -p /run/sshd /root/.ssh; chmod 700 /root /root/.ssh
ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f key; cp key.pub /root/.ssh/authorized_keys
serve 2222 /usr/sbin/sshd -D -e -f /dev/null -p 2222 -o HostKey="$PWD/host" -o ListenAddress=127.0.0.1 -o PidFile=none
export RSYNC_RSH="ssh -p 2222 -i $PWD/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
try 'over ssh, to' "rsync -aHz from/ root@127.0.0.1:$PWD/far/ && diff -r from far && echo same"
try 'over ssh, from' "rsync -aH root@127.0.0.1:$PWD/far/ near/ && diff -r from near && echo same"
try 'over ssh, changed' "echo x >>far/a/f1; rm far/a/f2; rsync -aHi from/ root@127.0.0.1:$PWD/far/"
