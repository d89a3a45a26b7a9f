# /dev/disk/by-label and by-uuid, which udev makes on Debian (so Linux is not asked, whose machine has none here): they follow what is written, as soon as who wrote it closes the disk.
# cairn-test: root=debian linux=no disk=64M,-L,first/one,-U,0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9
set -e; dev=$(findmnt -no SOURCE /mnt); here=$(pwd); uuid=0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9; echo kept >f; cd /
[ "$(readlink -f /dev/disk/by-label/first*)" = $dev ]; [ "$(readlink /dev/disk/by-uuid/$uuid)" = ../../${dev#/dev/} ]; [ -b /dev/disk/by-uuid/$uuid ]; [ ! -e /dev/disk/by-partuuid ]
umount /mnt; mount /dev/disk/by-uuid/$uuid /mnt; [ "$(findmnt -no SOURCE /mnt)" = $dev ]; [ "$(cat $here/f)" = kept ]; umount /mnt
mount LABEL=first/one /mnt; umount /mnt; [ "$(findfs UUID=$uuid)" = $dev ]
# Every name leads to what blkid finds by it.
for link in /dev/disk/by-uuid/*; do [ "$(blkid -c /dev/null -o value -s UUID $link)" = "${link##*/}" ]; done
dd if=$dev of=/tmp/kept bs=64k count=1 2>/dev/null; exec 3<>$dev; mkswap -q -L other $dev; [ -e /dev/disk/by-label/other ]; [ ! -e /dev/disk/by-uuid/$uuid ]; ls /dev/disk/by-label | grep -c . | grep -qx 1
dd if=/tmp/kept bs=64k >&3 2>/dev/null; [ -e /dev/disk/by-label/other ]; exec 3>&-; [ ! -e /dev/disk/by-label/other ]; [ -b /dev/disk/by-label/first* ]
wipefs -aq $dev; [ ! -e /dev/disk/by-label ]; ls /dev/disk | grep -qx by-uuid
dd if=/tmp/kept of=$dev bs=64k 2>/dev/null; mount LABEL=first/one /mnt; [ "$(cat $here/f)" = kept ]
