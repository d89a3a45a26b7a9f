# mount -t tmpfs: its size, number of nodes, rights and numbers, ENOSPC, and when it can be unmounted.
mkdir -p /tmp/m /tmp/n; echo below >/tmp/m/below
mount -t tmpfs -o size=64k,mode=750,uid=7,gid=8,nr_inodes=6 none /tmp/m && stat -c '%a %u %g %F' /tmp/m && ls -A /tmp/m
grep -c ' /tmp/m tmpfs rw,relatime' /proc/mounts; grep ' /tmp/m ' /proc/mounts | cut -d' ' -f1-3; df -P /tmp/m | tail -n 1
dd if=/dev/zero of=/tmp/m/full bs=4k count=20 2>/dev/null; echo "too much: $?"; ls -l /tmp/m/full | awk '{print $5}'; df -P /tmp/m | tail -n 1 | awk '{print $3, $4}'
rm /tmp/m/full; for i in 1 2 3 4 5 6 7; do mkdir /tmp/m/d$i 2>/dev/null || echo "no node for $i"; done; rmdir /tmp/m/d1; ln -s x /tmp/m/link && readlink /tmp/m/link
mount -t tmpfs /tmp/n 2>/dev/null; mount -t tmpfs tmpfs /tmp/n && stat -c %a /tmp/n
[ $(stat -c %d /tmp/m) != $(stat -c %d /tmp/n) ] && [ $(stat -c %d /tmp/n) != $(stat -c %d /tmp) ] && echo "numbers differ"
grep ' /tmp/n ' /proc/self/mountinfo | cut -d' ' -f3 | tr : ' ' | { read major minor; [ $((major * 256 + minor)) = $(stat -c %d /tmp/n) ] && echo "as st_dev has it"; }
cp /bin/busybox /tmp/n/sh; mkfifo /tmp/p; /tmp/n/sh -c 'echo up >/tmp/up; read x </tmp/p' & until [ -s /tmp/up ]; do :; done; umount /tmp/n 2>/dev/null; echo "a program runs: $?"; echo >/tmp/p; wait; rm /tmp/n/sh /tmp/p /tmp/up
exec 3>/tmp/n/open; umount /tmp/n 2>/dev/null; echo "a file is open: $?"; exec 3>&-
(cd /tmp/n; umount /tmp/n 2>/dev/null; echo "somebody is there: $?")
rmdir /tmp/m/d2; mv /tmp/n/open /tmp/m/moved && ls /tmp/n; mount -t tmpfs -o size=x none /tmp/absent 2>/dev/null; echo "absent: $?"
mkdir /tmp/o; for o in size=x nonsense mode=9 uid=-1; do mount -t tmpfs -o $o none /tmp/o 2>/dev/null; echo "$o: $?"; done; rmdir /tmp/o
umount /tmp/n && umount /tmp/m && cat /tmp/m/below && ls -A /tmp/n; umount /tmp/m 2>/dev/null; echo "again: $?"
for i in 1 2 3 4 5 6 7 8; do mount -t tmpfs -o size=1m none /tmp/n && echo $i >/tmp/n/f && head -c 500000 /dev/zero >/tmp/n/g && cat /tmp/n/f && umount /tmp/n; done; ls -A /tmp/n; grep -c '^nodev.tmpfs$' /proc/filesystems
rm -r /tmp/m /tmp/n
