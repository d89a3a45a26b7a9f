# mount and umount of a disk while the system runs, and what the tools for disks say of it.
# cairn-test: root=debian
here=$(pwd); dev=$(findmnt -no SOURCE /mnt); echo "$dev"
echo one >f; umount /mnt 2>/dev/null; echo "this is where we are: $?"
exec 3<f; cd /; umount /mnt 2>/dev/null; echo "a file is open: $?"; exec 3<&-
umount /mnt && echo unmounted; grep -c ' /mnt ' /proc/mounts; ls -A /mnt; umount /mnt 2>/dev/null; echo "not mounted: $?"
mount -t ext4 "$dev" /mnt && findmnt -no SOURCE,FSTYPE /mnt && cat "$here/f" && echo two >>"$here/f"
mount -t ext4 "$dev" /mnt 2>/dev/null; echo "mounted already: $?"
mkdir -p /tmp/place; for what in /dev/null /dev/absent /etc/passwd; do mount -t ext4 "$what" /tmp/place 2>/dev/null; echo "$what: $?"; done
mount -t nonsense "$dev" /tmp/place 2>/dev/null; echo "no such type: $?"; mount -t ext4 "$dev" /tmp/absent 2>/dev/null; echo "no such place: $?"
cp /bin/sleep /mnt/sleep; /mnt/sleep 1000 & until [ "$(cat /proc/$!/comm)" = sleep ]; do sleep 0.01; done; umount /mnt 2>/dev/null; echo "a program runs: $?"; kill $!; wait; rm /mnt/sleep
umount "$dev" && mount -o ro "$dev" /mnt && grep ' /mnt ' /proc/mounts | cut -d, -f1; cat "$here/f"; touch "$here/g" 2>/dev/null; echo "read-only: $?"
umount /mnt && mount -o noatime "$dev" /mnt && grep ' /mnt ' /proc/mounts | cut -d' ' -f1-4; touch "$here/g" && cat "$here/f"
lsblk -bno NAME,MAJ:MIN,RM,SIZE,RO,TYPE,MOUNTPOINTS "$dev"; blkid -o value -s TYPE "$dev"; blkid -c /dev/null | grep -c "^$dev: .*TYPE=\"ext4\""
grep "${dev#/dev/}" /proc/partitions; df --output=source,fstype,target /mnt; mountpoint -d /mnt; cat /sys/dev/block/$(mountpoint -d /mnt)/size /sys/block/${dev#/dev/}/queue/logical_block_size
findmnt -no TARGET,FSTYPE "$dev"; grep -w ext4 /proc/filesystems; for n in $(seq 20); do umount /mnt && mount "$dev" /mnt || echo "$n: $?"; done; cat "$here/f"
seq 300 >/mnt/many; exec 3</mnt/many; while read -r n <&3; do last=$n; done; exec 3<&-; umount /mnt; echo "read to $last: $?"; mount "$dev" /mnt; rm /mnt/many
