# Partitions that come and go while the system runs: BLKRRPART and BLKPG with their errors, in /dev, /proc/partitions and /sys; what is counted of disks.
# cairn-test: root=debian
dev=$(findmnt -no SOURCE /mnt); name=${dev#/dev/}; cd /
parts() { echo "$1: $(cd /sys/block/$name; for p in $name*; do [ -e $p ] && echo "$p $(cat $p/start $p/size $p/partition | tr '\n' ' ')"; done; grep -c "$name" /proc/partitions)" $(ls $dev* | sed "s,$name,DISK,") | sed "s,$name,DISK,g"; }
blockdev --rereadpt $dev 2>/dev/null; echo "mounted: $?"; umount /mnt; parts "without a table"; blockdev --rereadpt $dev; echo $?
cat >/tmp/table.py <<'P'
import struct, sys
block = bytearray(512); block[440:444] = b'\x78\x56\x34\x12'; block[510:] = b'\x55\xaa'
for i, part in enumerate(sys.argv[2:]):
    number, first, count = map(int, part.split(','))
    struct.pack_into('<BBBBBBBBII', block, 446 + 16 * (number - 1), 0, 0, 0, 0, 0x83, 0, 0, 0, first, count)
with open(sys.argv[1], 'r+b') as f: f.write(block)
P
python3 /tmp/table.py $dev 1,2048,40960 3,65536,8192; parts "written"; blockdev --rereadpt $dev; parts "and read"; cat /sys/class/block/${name}3/dev | cut -d: -f2 | grep -c .
mke2fs -V 2>/dev/null; mkswap -q -U 0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9 ${dev}3; blkid -c /dev/null -o value -s TYPE ${dev}3; blkid -c /dev/null -o value -s PARTUUID ${dev}3; lsblk -nro TYPE,SIZE $dev
exec 3<${dev}1; blockdev --rereadpt $dev 2>/dev/null; echo "open: $?"; delpart $dev 1 2>/dev/null; echo "open: $?"; exec 3<&-; delpart $dev 1; echo $?; parts "one removed"
delpart $dev 1 2>/dev/null; echo "not there: $?"; addpart $dev 3 2048 5 2>/dev/null; echo "there: $?"; addpart $dev 2 65000 1000 2>/dev/null; echo "over another: $?"; addpart $dev 2 2048 1000000000 2>/dev/null; echo "too long: $?"; addpart ${dev}3 1 0 5 2>/dev/null; echo "no disk: $?"
addpart $dev 2 4096 1000; addpart $dev 5 10000 8; parts "added"; exec 3<${dev}2; resizepart $dev 2 2000; echo "resized: $?"; blockdev --getsz ${dev}2; exec 3<&-; resizepart $dev 2 100000 2>/dev/null; echo "over another: $?"; parts "resized"
echo some bytes | dd of=${dev}2 bs=1 seek=700 conv=notrunc 2>/dev/null; dd if=$dev bs=1 skip=$((4096 * 512 + 700)) count=10 2>/dev/null
partx -d $dev; parts "without"; partx -a $dev; parts "as the table says"
su nobody -s /bin/sh -c "blockdev --rereadpt /dev/null" 2>/dev/null; echo "another: $?"
blockdev --rereadpt ${dev}3 2>/dev/null; echo "of a partition: $?"
head -c 40960 ${dev}1 | wc -c; sync; grep " ${name}1 " /proc/diskstats | wc -w; set -- $(cat /sys/block/$name/${name}1/stat); [ $# = 17 ] && [ $1 -gt 0 ] && [ $3 -ge 80 ] && echo "it was read"; set -- $(cat /sys/block/$name/stat); [ $5 -gt 0 ] && [ $7 -gt 0 ] && echo "it was written"; cat /sys/block/$name/queue/rotational; vmstat -d | grep -c "^$name"
dd if=/dev/zero of=$dev bs=512 count=1 conv=notrunc 2>/dev/null; blockdev --rereadpt $dev; parts "the end"
