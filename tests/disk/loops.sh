# Loop devices as tools use them: losetup, mke2fs, mount -o loop, files, umount, e2fsck; an image in memory, on a disk, and within another image; partitions; who may.
# cairn-test: root=debian limit=300
cd /mnt; used() { losetup -a | wc -l; }; blocks() { grep -c ' loop' /proc/partitions; }; used; blocks
truncate -s 24M image; dev=$(losetup -f --show image); echo $?; used; blocks; losetup -nO BACK-FILE,OFFSET,SIZELIMIT,AUTOCLEAR,RO $dev | tr -s ' '; losetup -j image | wc -l; blockdev --getsize64 $dev; lsblk -bdnro SIZE,RO,TYPE $dev
mke2fs -q -t ext4 -b 1024 $dev; echo $?; blkid -p -o value -s TYPE $dev; mkdir -p /tmp/m /tmp/n /tmp/o; mount -t ext4 $dev /tmp/m; echo $?; findmnt -no FSTYPE /tmp/m
seq 100000 >/tmp/m/numbers; mkdir /tmp/m/folder; cp /bin/ls /tmp/m/folder/; ln -s folder/ls /tmp/m/link; sync; cmp /bin/ls /tmp/m/link && tail -n 1 /tmp/m/numbers
losetup -d $dev; echo $?; used; losetup -nO AUTOCLEAR $dev | tr -d ' '; umount /tmp/m; echo $?; used; blocks; e2fsck -fn image >/dev/null 2>&1; echo "e2fsck: $?"
mount -o loop image /tmp/m; echo $?; used; cmp /bin/ls /tmp/m/folder/ls && echo same; df --output=fstype,target /tmp/m | tail -n 1 | tr -s ' '; umount /tmp/m; echo $?; used
mount -o loop,ro image /tmp/m; echo $?; touch /tmp/m/new 2>/dev/null; echo "read-only: $?"; losetup -nO RO | tr -d ' '; umount /tmp/m
# An image in memory, one in an image, and a disk of FAT.
cp --sparse=always image /tmp/image; mount -o loop /tmp/image /tmp/m; truncate -s 8M /tmp/m/inner; mke2fs -q -F -t ext4 /tmp/m/inner; mount -o loop /tmp/m/inner /tmp/n; echo $?; used; seq 1000 >/tmp/n/seq; umount /tmp/m 2>/dev/null; echo "in use: $?"
for n in 1 2 3 4; do (head -c 1000000 /dev/urandom >/tmp/n/r$n; cat /tmp/n/r$n >/tmp/m/c$n; cmp /tmp/n/r$n /tmp/m/c$n && echo equal) & done; wait; sync
umount /tmp/n; umount /tmp/m; echo $?; used; mount -o loop /tmp/image /tmp/m; mount -o loop /tmp/m/inner /tmp/n; tail -n 1 /tmp/n/seq; cmp /tmp/n/r3 /tmp/m/c3 && echo kept; umount /tmp/n /tmp/m; e2fsck -fn /tmp/image >/dev/null 2>&1; echo "e2fsck: $?"
# With an offset, and partitions.
truncate -s 20M parts
python3 - <<'P'
import struct
block = bytearray(512); block[510:] = b'\x55\xaa'
for i, (first, count) in enumerate([(2048, 16384), (20480, 20480)]): struct.pack_into('<BBBBBBBBII', block, 446 + 16 * i, 0, 0, 0, 0, 0x83, 0, 0, 0, first, count)
with open('parts', 'r+b') as f: f.write(block)
P
dev=$(losetup -f --show -P parts); ls ${dev}p* | wc -l; blockdev --getsz ${dev}p1 ${dev}p2; mke2fs -q -t ext4 ${dev}p1; mount -t ext4 ${dev}p1 /tmp/m; echo $?; echo there >/tmp/m/file; umount /tmp/m; lsblk -nro TYPE $dev | sort | uniq -c | tr -s ' '; losetup -d $dev; ls ${dev}p* 2>/dev/null | wc -l
mount -o loop,offset=1048576,sizelimit=8388608 parts /tmp/m; echo $?; cat /tmp/m/file; umount /tmp/m; used
# Who may.
chmod 711 /root 2>/dev/null; as() { setpriv --reuid 1000 --regid 1000 --clear-groups "$@"; }; as losetup -f --show image 2>/dev/null; echo "losetup: $?"; as mount -o loop image /tmp/m 2>/dev/null; echo "mount: $((($?) != 0))"; used
# Many, and all of them back.
for n in $(seq 12); do truncate -s 1M /tmp/many$n; losetup -f /tmp/many$n || echo "no $n"; done; used; losetup -D; used; rm -f /tmp/many* image parts /tmp/image
