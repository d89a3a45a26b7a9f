# sync in all its forms says nothing and loses nothing; synchronous writes.
# cairn-test: root=debian
python3 - <<'END'
import os
f = os.open('f', os.O_RDWR | os.O_CREAT)
for n in range(50):
    os.write(f, b'%05d\n' % n)
    os.fsync(f) if n % 3 == 0 else os.fdatasync(f) if n % 3 == 1 else None
d = os.open('.', os.O_RDONLY); os.fsync(d); os.sync()
s = os.open('s', os.O_WRONLY | os.O_CREAT | os.O_SYNC); print(os.write(s, b'x' * 100000))
s = os.open('ds', os.O_WRONLY | os.O_CREAT | os.O_DSYNC); print(os.write(s, b'y' * 5))
v = os.statvfs('.'); print(v.f_bsize, v.f_namemax, v.f_bfree <= v.f_blocks, v.f_bavail <= v.f_bfree, v.f_ffree < v.f_files)
t = os.open('.', os.O_TMPFILE | os.O_RDWR); os.write(t, b'unnamed'); os.fsync(t); print(os.fstat(t).st_nlink)
os.link('/proc/self/fd/%d' % t, 'named', src_dir_fd=d, follow_symlinks=True); print(open('named').read(), os.stat('named').st_nlink)
END
sha256sum f s ds; sync f; sync -d s; sync -f .; ls
