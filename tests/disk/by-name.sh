# Disks by their label and number, which the tools find by looking at all disks of /proc/partitions; and when a file was made.
# cairn-test: root=debian disk=64M,-L,named,-U,0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9
dev=$(findmnt -no SOURCE /mnt); here=$(pwd); uuid=0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9
echo one >f; born=$(stat -c %w f); [ $(stat -c %W f) -gt 0 ] && echo "it was made"; touch -d '2001-02-03' f; sleep 0.01; echo two >>f; chmod 600 f; mv f g; [ "$(stat -c %w g)" = "$born" ] && echo "and stays so"; [ "$(stat -c %w - <g)" = "$born" ] && echo "by its handle as well"
cd /; umount /mnt; blkid -c /dev/null -o value -s LABEL "$dev"; blkid -c /dev/null -o value -s UUID "$dev"
[ "$(findfs LABEL=named)" = "$dev" ] && echo found; [ "$(blkid -c /dev/null -U $uuid)" = "$dev" ] && echo found
mount LABEL=named /mnt && findmnt -no TARGET,FSTYPE "$dev" && umount /mnt
mount UUID=$uuid /mnt && findmnt -no TARGET,FSTYPE "$dev"; mount UUID=00000000-0000-0000-0000-000000000000 /opt 2>/dev/null; echo "no such disk: $?"
cd "$here"; cat g; [ "$(stat -c %w g)" = "$born" ] && echo "made then"
