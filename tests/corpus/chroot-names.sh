# No name leads out of a chroot: neither `..` nor links, from wherever in it; and what is mounted in it is there, and leads back.
mkdir -p /tmp/jail/bin /tmp/jail/d/e /tmp/jail/m /tmp/jail/proc; cp /bin/busybox /tmp/jail/bin; for a in sh cat ls pwd readlink stat mkdir rmdir touch mv umount mount chroot echo; do ln -s busybox /tmp/jail/bin/$a; done
echo secret >/tmp/outside; echo inside >/tmp/jail/d/f; ln -s /d/f /tmp/jail/absolute; ln -s ../outside /tmp/jail/up; ln -s /tmp/outside /tmp/jail/away; ln -s / /tmp/jail/d/top
in_jail() { chroot /tmp/jail /bin/sh -c "$1" 2>&1 | sed 's/^\(sh\|cat\|ls\|mkdir\|touch\|mv\): //'; }
in_jail 'cat ../outside; cat ../../tmp/outside; cat /../outside; cat d/../../outside; cat d/../d/f'
in_jail 'cat up; cat away; cat absolute; cat d/top/d/f d/e/../f; cd d/e; cat ../../../../outside; cat ../f; pwd; cd ../../..; pwd; ls'
in_jail 'cd /d/e; mkdir ../../../made; ls /; rmdir /made; touch ../../../../new; ls -d /new; mv /new ../../../renamed; ls -d /renamed'; ls -d /made /new /renamed /tmp/made 2>/dev/null; ls /tmp/jail
echo mounts; mount -t tmpfs -o size=64k none /tmp/jail/m && mount --bind /proc /tmp/jail/proc && echo in m >/tmp/jail/m/file; mkdir /tmp/jail/m/sub
in_jail 'cat m/file /m/file m/sub/../file; cat m/../../outside; cat m/sub/../../d/f; cd /m/sub; cat ../../d/f; cat ../../../outside; cat /proc/sys/kernel/ostype; cd /proc/sys; cat kernel/ostype; cat ../../outside ../../../outside'
in_jail 'mount -t tmpfs -o size=64k none /d/e && echo deep >/d/e/g && cat /d/e/g d/e/../e/g && cd /d/e && cat ../f && cd / && umount /d/e && ls d/e'
echo nested; in_jail 'chroot /d /bin/sh -c "cat f" || echo none; mkdir /d/bin; cp /bin/busybox /d/bin/sh; chroot /d /bin/sh -c "cat f; cat ../absolute; cat e/../../f; ls /"'
umount /tmp/jail/m; umount /tmp/jail/proc; chroot / /bin/cat /tmp/outside; rm -r /tmp/jail /tmp/outside
