# The servers of the root and of this disk are killed in turn, eight times, and bash goes on: so do its open files, and programs that are started from the root afterwards. Everything is synced before, so nobody may hear of a loss.
. /restart/lib.sh
dmesg | grep damaged && exit 1
mkdir -p /root/w && exec 3>/root/w/log 4>log 5</etc/passwd || exit 1
read -r first <&5; [ "${first%%:*}" = root ] || exit 1
for n in 1 2 3 4; do
    sync; killed ext4-vda $((n * 37)); sync; killed ext4-vdb $((n * 23))
    echo "round $n" >&3 && echo "round $n" >&4 || exit 1
    [ "$(python3 -c 'print(6 * 7)')" = 42 ] && [ "$(perl -e 'print 6 * 7')" = 42 ] || exit 1
    sqlite3 data "create table if not exists t(n); insert into t values($n);" || exit 1
done
read -r second <&5; [ "$second" = "$(sed -n 2p /etc/passwd)" ] || exit 1
# By hand, beneath a program whose code is not all read yet.
python3 -c 'import time; time.sleep(1); import decimal, json; print(6 * 7)' >later & sleep 0.3
cairn-ctl restart ext4-vda >/dev/null && wait $! && [ "$(cat later)" = 42 ] || exit 1
# The server of disks' nodes, beside a loop device that is mounted and one that is only bound.
truncate -s 8M image other && mke2fs -q -t ext4 image && mkdir -p /tmp/m && mount -o loop image /tmp/m && seq 1000 >/tmp/m/seq && dev=$(losetup -f --show other) || exit 1
for n in 1 2 3; do
    cairn-ctl restart blockdev >/dev/null && [ "$(losetup -a | wc -l)" = 2 ] && echo "round $n" | dd of=$dev conv=fsync 2>/dev/null && [ "$(head -n 1 other)" = "round $n" ] || exit 1
done
seq 1000 2000 >>/tmp/m/seq && losetup -d $dev && umount /tmp/m && [ "$(losetup -a | wc -l)" = 0 ] && mount -o loop image /tmp/m && [ "$(wc -l </tmp/m/seq)" = 2001 ] && umount /tmp/m || exit 1
exec 3>&- 4>&-
cmp /root/w/log log && [ "$(grep -c round log)" = 4 ] && [ "$(sqlite3 data 'pragma integrity_check; select sum(n) from t;' | tr '\n' ' ')" = "ok 10 " ] && [ "$(dmesg | grep -c 'ext4-vd[ab]: goes on')" = 9 ] && echo good
