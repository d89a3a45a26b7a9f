# FIFOs of two file systems whose nodes have the same numbers are two; they have their nodes' modes and owners; names and links between file systems.
mkdir -p /tmp/a /tmp/b; mount -t tmpfs -o size=64k none /tmp/a; mount -t tmpfs -o size=64k none /tmp/b
mkfifo -m 640 /tmp/a/p; mkfifo /tmp/b/p; [ $(stat -c %i /tmp/a/p) = $(stat -c %i /tmp/b/p) ] && echo same number
exec 3<>/tmp/a/p 4<>/tmp/b/p; echo to a >&3; echo to b >&4; read x <&4; read y <&3; echo $x, $y
ln /tmp/a/p /tmp/a/q; exec 5<>/tmp/a/q; echo by another name >&5; read x <&3; echo $x; mv /tmp/a/q /tmp/a/r; echo moved >/tmp/a/r; read x <&3; echo $x
chown 7:8 /tmp/a/p; stat -c '%a %u %g %F' /tmp/a/p; exec 3<&- 4<&- 5<&-; exec 3<>/tmp/a/p; stat -L -c '%a %u %g %F' /proc/self/fd/3; exec 3<&-
echo one >/tmp/a/p & read x </tmp/a/p; echo $x; wait; cat /tmp/b/p & echo through >/tmp/b/p; wait
touch /tmp/a/f; ln /tmp/a/f /tmp/b/g 2>/dev/null || echo no link; mv /tmp/a/f /tmp/b/f && ls /tmp/a /tmp/b
rmdir /tmp/a 2>/dev/null || echo busy; mv /tmp/a /tmp/c 2>/dev/null || echo busy; mkdir /tmp/a/d; cd /tmp/a/d; ls -d ../../b; cd ../..; pwd
umount /tmp/a && umount /tmp/b && rmdir /tmp/a /tmp/b
