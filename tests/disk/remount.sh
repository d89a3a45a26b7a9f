# mount -o remount,ro and rw: who holds it up, that nothing can be written any more, that the disk is clean then, and all that there and back again.
# cairn-test: root=debian
here=$(pwd); dev=$(findmnt -no SOURCE /mnt); says() { echo "$1: $? $(grep ' /mnt ' /proc/mounts | cut -d' ' -f4 | cut -d, -f1,2) $(od -An -tx4 -j1120 -N4 $dev)"; }
echo one >f; mkdir d full; touch full/x; ln -s f l; ln f f2; chmod 666 f; says begin; exec 3<f
mount -o remount,ro /mnt; says ro; cat <&3; exec 3<&-; cat f l; mount -o remount,ro /mnt; says "again"
cat >/tmp/refused.py <<'P'
import os
def refused(what, call):
    try: call(); print(what, 'done')
    except OSError as e: print(what, e.strerror)
fd = os.open('f', os.O_RDONLY)
for what, call in [
    ('write', lambda: os.open('f', os.O_WRONLY)), ('append', lambda: os.open('f', os.O_RDWR | os.O_APPEND)), ('cut', lambda: os.open('f', os.O_RDONLY | os.O_TRUNC)), ('create', lambda: os.open('new', os.O_CREAT | os.O_RDONLY)), ('there', lambda: os.close(os.open('f', os.O_CREAT | os.O_RDONLY))),
    ('unnamed', lambda: os.open('.', os.O_TMPFILE | os.O_RDWR)), ('mkdir', lambda: os.mkdir('new')), ('mkdir there', lambda: os.mkdir('d')), ('rmdir', lambda: os.rmdir('d')), ('rmdir full', lambda: os.rmdir('full')), ('unlink', lambda: os.unlink('f')), ('unlink absent', lambda: os.unlink('absent')), ('rename', lambda: os.rename('f', 'g')), ('over', lambda: os.rename('f', 'f2')), ('link', lambda: os.link('f', 'g')), ('link there', lambda: os.link('f', 'f2')),
    ('symlink', lambda: os.symlink('f', 'g')), ('mkfifo', lambda: os.mkfifo('g')), ('chmod', lambda: os.chmod('f', 0o600)), ('fchmod', lambda: os.fchmod(fd, 0o600)), ('chown', lambda: os.chown('f', 1, 1)), ('utime', lambda: os.utime('f', (1, 1))), ('truncate', lambda: os.truncate('f', 1)),
    ('setxattr', lambda: os.setxattr('f', 'user.a', b'b')), ('removexattr', lambda: os.removexattr('f', 'user.a')), ('fsync', lambda: os.fsync(fd)), ('sync', lambda: os.sync())]: refused(what, call)
print(os.access('f', os.W_OK), os.access('d', os.W_OK), os.access('f', os.R_OK), os.statvfs('.').f_flag & 1)
P
python3 /tmp/refused.py; ls; before=$(stat -c '%X %Y %Z' f); cat f >/dev/null; [ "$before" = "$(stat -c '%X %Y %Z' f)" ] && echo "times as before"
mount -o remount,rw /mnt; says rw; echo two >>f; cat f2; exec 4>>f; mount -o remount,ro /mnt 2>/dev/null; says "open to be written"; echo three >&4; exec 4>&-
echo gone >gone; exec 5<gone; rm gone; mount -o remount,ro /mnt 2>/dev/null; says "without a name"; cat <&5; exec 5<&-
cp /bin/sleep .; ./sleep 1000 & mount -o remount,ro /mnt; says "a program runs"; kill $!; wait; mount -o remount,rw /mnt; says rw; rm sleep
mount -o remount,noatime /mnt; says noatime; mount -o remount,ro /mnt; says "ro, noatime"; mount -o remount,rw,relatime /mnt; says "rw, relatime"
for n in $(seq 8); do mkdir -p many/$n; head -c $((n * 3333)) /bin/bash >many/$n/a; rm -rf many/$((n - 3)); mount -o remount,ro /mnt || echo "ro $n: $?"; [ "$(cat many/$n/a | sha256sum)" = "$(head -c $((n * 3333)) /bin/bash | sha256sum)" ] || echo "other bytes: $n"; mount -o remount,rw /mnt || echo "rw $n: $?"; done; ls many; says "eight times"
# Who writes meanwhile, with a file that is open for a moment only, writes whole lines or hears that he cannot.
touch lines; (i=0; while [ ! -e /tmp/stop ]; do i=$((i + 1)); echo line >>lines 2>/dev/null || echo failed >/tmp/failed; done) & for n in $(seq 12); do mount -o remount,ro /mnt 2>/dev/null && { a=$(cat lines | wc -c); sleep 0.01; [ "$a" = "$(cat lines | wc -c)" ] || echo "it grew"; mount -o remount,rw /mnt; }; done; touch /tmp/stop; wait; sort -u lines; rm -f lines
cd /; umount /mnt && mount -o ro $dev /mnt; says "mounted ro"; touch $here/g 2>/dev/null; echo "refused: $?"; mount -o remount,rw /mnt; says rw; echo four >>$here/f; umount /mnt && mount $dev /mnt; says "mounted rw"; cat $here/f; mount -o remount,rw /mnt; says end
mount -o remount,ro /absent 2>/dev/null; echo "not there: $?"; mount -o remount,ro $here 2>/dev/null; echo "no mount: $?"; su nobody -s /bin/sh -c "mount -o remount,ro /mnt" 2>/dev/null; echo "another: $?"
