# /proc/self/fd and /dev/fd: reading through them.
echo content >f; exec 5<f; readlink /proc/self/fd/5 | sed "s|$(pwd)|CWD|"; cat /proc/self/fd/5; exec 5<&-; echo via | cat /dev/fd/0; echo std | cat /dev/stdin; echo out >/dev/stdout; echo err 2>&1 >/dev/stderr | cat; echo x | cat /dev/stdin - </etc/hostname
