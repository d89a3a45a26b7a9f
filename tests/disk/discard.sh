# Free blocks are given back to the disk: fstrim, mount -o discard; who may not, and that nothing is lost.
# cairn-test: root=debian
here=$(pwd); dev=$(findmnt -no SOURCE /mnt); options() { grep ' /mnt ' /proc/mounts | cut -d' ' -f4; }
cp /bin/bash kept; head -c 5000000 /dev/zero | tr '\0' x >gone; sync; rm gone; sync
fstrim -v /mnt | sed 's/: .* (/: (/; s/([0-9]* bytes)/(some bytes)/'; fstrim $here; echo $?; cmp kept /bin/bash && echo kept; fstrim -o 1M -l 2M /mnt; echo "a part: $?"; fstrim -m 1T /mnt 2>/dev/null; echo "too long: $?"; fstrim -o 1T /mnt 2>/dev/null; echo "behind the end: $?"
su nobody -s /bin/sh -c 'fstrim /mnt' 2>/dev/null; echo "another: $?"; fstrim /dev 2>/dev/null; echo "no disk: $?"; fstrim /mnt & head -c 3000000 /bin/bash >during; wait; head -c 3000000 /bin/bash | cmp - during && echo "written during it"
cd /; umount /mnt; mount -o discard $dev /mnt; options; cd $here; for n in $(seq 20); do head -c $((n * 50000)) /bin/bash >a$n; [ $n -gt 5 ] && rm a$((n - 5)); sync; done; for n in 16 17 18 19 20; do head -c $((n * 50000)) /bin/bash | cmp - a$n || echo "a$n"; done; ls
set -- $(cat /sys/block/${dev#/dev/}/stat); [ ${12} -gt 0 ] && [ ${14} -gt 1000 ] && echo "it was discarded"
mount -o remount,nodiscard /mnt; options; mount -o remount,discard,noatime /mnt; options; mount -o remount,ro /mnt; options; mount -o remount,rw,nodiscard /mnt; options; cd /; umount /mnt; mount -o nonsense $dev /mnt 2>/dev/null; echo "unknown: $?"; mount $dev /mnt; cmp $here/kept /bin/bash && echo kept
