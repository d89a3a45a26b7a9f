# /proc/self and /proc/PID: what programs look for. cairn-test: cores=1
cat /proc/self/comm; tr '\0' ' ' </proc/self/cmdline; echo; readlink /proc/self/cwd | sed "s|$(pwd)|CWD|"; readlink /proc/self/exe; ls /proc/self/fd | head -n 3
awk '{ print NF }' /proc/self/stat; awk '/^(Name|Uid|Gid|Threads)/' /proc/self/status; [ -r /proc/meminfo ] && awk '$1 == "MemTotal:" { print NF }' /proc/meminfo; [ -d /proc/$$ ] && echo me; [ -d /proc/999999 ] || echo nobody
grep -c '^processor' /proc/cpuinfo; awk '{ print NF }' /proc/loadavg; awk '{ print NF }' /proc/uptime; head -n 1 /proc/self/maps | grep -c -- '-'
