# Debian's e2fsprogs, configured by dpkg, make, check, name, shrink and grow a file system on a disk of the machine.
# cairn-test: root=debian
dev=$(findmnt -no SOURCE /mnt); cd /; umount /mnt
dpkg-query -W -f '${Package} ${db:Status-Status}\n' e2fsprogs; dpkg --audit
uuid=12345678-1234-1234-1234-123456789abc
mkfs.ext4 -q -F -U $uuid -E hash_seed=$uuid -L first "$dev" && e2label "$dev" && blkid -o value -s UUID "$dev"
mount "$dev" /mnt && mkdir /mnt/folder && seq 20000 >/mnt/folder/numbers && sync
fsck.ext4 -n "$dev" >/dev/null 2>&1; echo "mounted: $?"
umount /mnt && fsck.ext4 -fn "$dev" 2>/dev/null | grep -c '^Pass'
fsck.ext4 -fp "$dev" >/dev/null; echo "preened: $?"
e2label "$dev" second && mount LABEL=second /mnt && md5sum /mnt/folder/numbers; umount /mnt
size() { dumpe2fs -h "$dev" 2>/dev/null | sed -n 's/^Block count: *//p'; }
whole=$(size); fsck.ext4 -fp "$dev" >/dev/null; resize2fs "$dev" $((whole / 2)) >/dev/null 2>&1; echo "smaller: $?"; test "$(size)" -lt "$whole" && echo less
mount "$dev" /mnt && md5sum /mnt/folder/numbers && dd if=/dev/zero of=/mnt/full bs=64k 2>/dev/null; echo "full: $?"; rm /mnt/full; umount /mnt
fsck.ext4 -fy "$dev" >/dev/null 2>&1; echo "checked: $?"
resize2fs "$dev" >/dev/null 2>&1; echo "whole again: $?"; test "$(size)" = "$whole" && echo same
debugfs -R 'stat /folder/numbers' "$dev" 2>/dev/null | grep -c '^Inode:'
mount "$dev" /mnt && md5sum /mnt/folder/numbers && ls /mnt
