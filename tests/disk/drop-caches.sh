# The superuser has caches dropped: what is read next comes from the disk again, and nothing that was not written yet is lost. Nobody else may, and there is nothing to be read.
sectors() { awk '{ sum += $6 } END { print sum }' /proc/diskstats; }
head -c 8388608 /dev/urandom > file; sync; was=$(md5sum < file)
cat file > /dev/null
before=$(sectors); cat file > /dev/null; again=$(($(sectors) - before))
echo "read again from the disk: $((again > 4096))"
for what in 1 3; do
    echo $what > /proc/sys/vm/drop_caches; echo "$what: $?"
    sleep 1
    before=$(sectors); test "$(md5sum < file)" = "$was" && echo same; again=$(($(sectors) - before))
    echo "read again from the disk: $((again >= 16384))"
done
# Not written yet, written by others at the same time.
for i in 1 2 3 4; do
    (for n in 1 2 3 4 5 6 7 8; do head -c 500000 /dev/urandom > "own$i"; md5sum < "own$i" > "sum$i"; md5sum < "own$i" | cmp - "sum$i" || echo differs; done) &
done
for n in 1 2 3 4 5 6; do echo 3 > /proc/sys/vm/drop_caches; sleep 0.1; done
wait
for i in 1 2 3 4; do md5sum < "own$i" | cmp - "sum$i" && echo "whole $i"; done
for bad in 0 5 -1 x ''; do echo $bad > /proc/sys/vm/drop_caches; echo "'$bad': $?"; done 2> /dev/null
cat /proc/sys/vm/drop_caches 2> /dev/null; echo "read: $?"
su -s /bin/sh nobody -c 'echo 3 > /proc/sys/vm/drop_caches' 2> /dev/null; echo "nobody: $?"
ls -l /proc/sys/vm/drop_caches | cut -c1-10
rm -f file own* sum*
