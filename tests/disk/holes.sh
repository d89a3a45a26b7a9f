# Sparse files: holes read as zeros, take no blocks, are cut, filled and grown again.
# cairn-test: root=debian
truncate -s 40G s && stat -c '%s %b' s && printf end | dd of=s bs=1 seek=39999999997 conv=notrunc status=none && stat -c '%s %b' s
tail -c 5 s | od -An -c; dd if=s bs=1M skip=20000 count=2 status=none | sha256sum
[ "$(stat -c %b s)" -le 16 ] && echo "a block or two"
truncate -s 5000 s && truncate -s 9000 s && od -An -tx1 s | sort | uniq -c
for n in 0 3 6 9 12; do printf '%04096d' $n | dd of=p bs=4096 seek=$n conv=notrunc status=none; done
stat -c '%s %b' p; sha256sum <p
fallocate -p -o 12288 -l 4096 p && stat -c '%s %b' p && sha256sum <p
fallocate -p -o 100 -l 8000 p && stat -c '%s %b' p && sha256sum <p
fallocate -l 1M q && stat -c '%s %b' q && sha256sum <q && printf data | dd of=q bs=1 seek=500000 conv=notrunc status=none && sha256sum <q && stat -c '%s %b' q
fallocate -n -o 1M -l 1M q && stat -c '%s %b' q && truncate -s 1M q && sha256sum <q
fallocate -z -o 490000 -l 20000 q && stat -c %s q && sha256sum <q
python3 - <<'END'
import os
f = os.open('p', os.O_RDWR)
at = 0
while True:
    try:
        data = os.lseek(f, at, os.SEEK_DATA)
        at = os.lseek(f, data, os.SEEK_HOLE)
        print('data', data, 'to', at)
    except OSError as error:
        print(error.strerror); break
print(os.lseek(f, 0, os.SEEK_HOLE))
os.pwrite(f, b'x' * 10000, 70000); os.ftruncate(f, 75001); print(os.fstat(f).st_size, os.pread(f, 5, 74999))
os.ftruncate(f, 80000); print(os.pread(f, 6, 75000))
END
sha256sum <p
cp --sparse=always p r && cmp p r && stat -c '%s %b' r
dd if=/dev/zero of=z bs=1 count=1 seek=16T status=none 2>/dev/null || echo "too large"
# (On Linux p has a block of its tree more if it happened to be written out before a hole was made in it.)
ls -ls q r s z | awk '{ print $1, $6, $NF }'
