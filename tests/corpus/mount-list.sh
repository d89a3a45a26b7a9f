# /proc/mounts names the root and /proc; mount refuses nonsense.
mount | awk '$3 == "/" { print "root" }' | head -n 1; awk '$2 == "/proc" { print $3 }' /proc/mounts; awk '{ print NF }' /proc/mounts | sort -u; mount nowhere /mnt 2>/dev/null; [ $? -ne 0 ] && echo refused; umount /etc 2>/dev/null; [ $? -ne 0 ] && echo not mounted
