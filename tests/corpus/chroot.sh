# chroot into a small tree.
mkdir -p r/bin r/etc; cp /bin/busybox r/bin; ln -s busybox r/bin/sh; echo inside >r/etc/name; chroot r /bin/sh -c 'cat /etc/name; pwd; cd ..; pwd; ls /' 2>/dev/null || chroot r /bin/busybox cat /etc/name; rm r/bin/busybox
