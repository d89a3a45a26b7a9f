# An ISO 9660 image of xorriso's: found without -t, everything in it by name, mode, owner, time and content, programs run from it, nothing can be written.
# cairn-test: root=debian iso=yes
disk=/dev/vdc; place=/tmp/iso; mkdir -p $place; blkid -o value -s TYPE $disk; blkid -o value -s LABEL $disk
mount $disk $place 2>/dev/null && findmnt -no SOURCE,FSTYPE $place && grep " $place " /proc/mounts | cut -d' ' -f2,3 | sed 's/,.*//'
cd $place; ls -A; find . -mindepth 1 \( -type f -o -type l -o -type d \) -printf '%p %y %#m %U %G %n %s %b %T@ %A@ %l\n' | LC_ALL=C sort
stat -c '%n %F %a %s %b %B %o' . many large empty; stat -f -c '%T %s %S %b %f %a %c %d %l' .; df -B2048 --output=size,used,avail,pcent . | tail -1
find . -type f ! -path './modes/none' -exec sha256sum {} + | LC_ALL=C sort -k2; cmp large large && tail -c 7 large | od -An -tx1; dd if=large bs=1000 skip=2047 count=3 2>/dev/null | sha256sum; cat 'grüße 日本' Case case long-long*; cat to-small a/b/up dots/d/e/f/g/h/i/j/deep; cat dangling nowhere/x small/x 2>/dev/null; echo "not there: $?"
ls many | wc -l; ls many | head -3; cat "many/A file with the number 299.txt"; (cd a/b/c/d/e/f/g/h/i/j && pwd -P && cd .. && pwd -P && cat j/deep && cat ../../../../../../../../../a/small-too); readlink /proc/self/cwd; cd a/b; exec 5<up; readlink /proc/self/fd/5; exec 5<&-; cd ../..
./busybox echo run from there; ./busybox sha256sum busybox | cut -c1-64; cp busybox /tmp/busybox && cmp busybox /tmp/busybox && /tmp/busybox true && echo same; rm /tmp/busybox; ./busybox grep -c '' large >/dev/null; ./map large length-* busybox; python3 -c "
import os
f = os.open('large', os.O_RDONLY); print(os.lseek(f, 0, os.SEEK_HOLE), os.lseek(f, 5, os.SEEK_DATA), os.statvfs('.').f_flag & 1)
def refused(what, call):
    try: call(); print(what, 'done')
    except OSError as e: print(what, e.strerror)
refused('open to write', lambda: os.open('small', os.O_WRONLY)); refused('open to cut', lambda: os.open('small', os.O_RDONLY | os.O_TRUNC)); refused('create', lambda: os.open('new', os.O_CREAT | os.O_RDWR)); refused('create what is there', lambda: os.open('small', os.O_CREAT | os.O_EXCL)); refused('create and read what is there', lambda: os.close(os.open('small', os.O_CREAT | os.O_RDONLY)))
refused('mkdir', lambda: os.mkdir('new')); refused('mkdir there', lambda: os.mkdir('a')); refused('rmdir', lambda: os.rmdir('modes/sticky')); refused('unlink', lambda: os.unlink('small')); refused('unlink absent', lambda: os.unlink('absent')); refused('rmdir absent', lambda: os.rmdir('absent/')); refused('rename', lambda: os.rename('small', 'b')); refused('link', lambda: os.link('small', 'b')); refused('symlink', lambda: os.symlink('small', 'b')); refused('mkfifo', lambda: os.mkfifo('fifo'))
refused('chmod', lambda: os.chmod('small', 0o777)); refused('chown', lambda: os.chown('small', 1, 1)); refused('utime', lambda: os.utime('small', (1, 1))); refused('truncate', lambda: os.truncate('small', 1)); refused('setxattr', lambda: os.setxattr('small', 'user.a', b'b')); refused('getxattr', lambda: os.getxattr('small', 'user.a')); refused('unnamed', lambda: os.open('.', os.O_TMPFILE | os.O_RDWR)); print('may write:', os.access('small', os.W_OK), os.access('.', os.W_OK), os.access('busybox', os.X_OK))
refused('write through the disk', lambda: os.ftruncate(f, 1)); refused('allocate', lambda: os.posix_fallocate(f, 0, 1)); refused('sync', lambda: os.fsync(f))
"
cp -a $place /tmp/copy && diff -r $place /tmp/copy && echo copied; find /tmp/copy -type f -perm 4755; rm -rf /tmp/copy; su nobody -s /bin/sh -c "cat $place/modes/private" 2>/dev/null; echo "another's: $?"
./busybox sleep 1000 & cd /; umount $place 2>/dev/null; echo "a program runs: $?"; kill $!; wait; umount $place && ls -A $place; mount -t iso9660 -o ro $disk $place && cat $place/small && umount $place && mount -t ext4 $disk $place 2>/dev/null; echo "no ext4: $?"; mount -t iso9660 -o ro /dev/vdb $place 2>/dev/null; echo "in use: $?"; lsblk -no FSTYPE,LABEL $disk
