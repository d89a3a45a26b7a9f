# bubblewrap: a shell that sees only what it was given, as root and as an ordinary user.
export LC_ALL=C
cd /; echo hidden >/tmp/secret; chmod 644 /tmp/secret; mkdir -p /srv/given; echo given >/srv/given/text; chmod 666 /srv/given/text
as() { if [ $1 = root ]; then sh -c "$2"; else su $1 -c "$2"; fi 2>&1; echo "= $?"; }
all='--unshare-user --unshare-ipc --unshare-pid --unshare-uts --unshare-cgroup-try'
for who in root user; do
echo "== $who: a root of its own"
as $who "bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp $all --hostname box sh -c 'id -u; hostname; echo \$\$; ls /tmp /dev; cat /tmp/secret; echo x >/tmp/y; cat /tmp/y; echo x >/srv/given/text; cat /srv/given/text; readlink /proc/self/ns/user | cut -c 1-4'"
echo "== $who: processes"
as $who "bwrap --ro-bind / / --dev /dev --proc /proc $all bash -c 'cd /proc; echo [0-9]*; kill -0 1; kill -9 1; ps -o pid,ppid,comm;'"
echo "== $who: only what was given"
as $who "bwrap --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --dev /dev --proc /proc --tmpfs /tmp --bind /srv/given /given $all sh -c 'ls /; cat /given/text; ls /etc /srv /tmp; echo x >/usr/x; echo x >/new; ls /new; readlink /bin'"
done
echo "== afterwards"
cat /tmp/secret /srv/given/text; hostname | wc -l; ls /usr/bin/x /mnt; rm -r /tmp/secret /srv/given
