# procps and util-linux: what they find in /proc and do with processes, terminals and files.
export LC_ALL=C
ps -o pid,comm -p 1
sleep 30 & pid=$!
pgrep -x sleep | grep -c "^$pid$"
ps -o stat=,ni=,comm= -p $pid | tr -s ' '
pkill -x sleep; wait $pid; echo $?
free -k | awk 'NR == 2 { print ($2 > 0 && $4 < $2) }'
top -b -n 1 | awk '/PID/ { print $1, $NF }'
uptime | grep -c 'load average'
pgrep -x nosuch; echo $?
id; whoami; groups; hostname
mountpoint -q /proc && echo mounted
findmnt -n -o FSTYPE /proc
stat -c '%a %U %G %F' /etc/passwd /tmp /dev/null
flock lock -c 'flock -n lock echo twice || echo locked'
getopt -o ab: --long long: -- -a -b x --long=y z
hexdump -C <<<hello
script -qc 'tty | cut -d/ -f1-3; stty size' /dev/null
setsid -w echo setsid
prlimit --nofile=100:200 bash -c 'ulimit -Sn; ulimit -Hn'
mktemp -u aXXX | wc -c
fallocate -l 64k fa && stat -c '%s' fa
chrt -p $$ | sed 's/[0-9]*.s current/current/'
cal 1 2000 | head -n 3
rev <<<abc; column -t <<<$'a bb\nccc d'; look zz /dev/null; namei -m /usr/bin/env | tail -n 1
renice -n 3 $$ >/dev/null; ps -o ni= -p $$ | tr -d ' '
ls -l /proc/self/fd/0 >/dev/null && echo fd
w -h | wc -l; watch -V | cut -d' ' -f1
# By inotify, or else it would say that it cannot.
echo one >followed; (sleep 0.5; echo two >>followed; sleep 0.5) & timeout 20 tail -f --pid=$! followed 2>&1
