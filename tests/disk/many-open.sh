# Ten thousand files open at a time: each read and written where it is, removed while it is open, and all room there again.
# cairn-test: root=debian limit=600 disk=128M,-b,4096,-N,16000
python3 - <<'END'
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (12000, 12000))
before = os.statvfs('.')
files = []
for n in range(10000):
    f = os.open('f%d' % n, os.O_RDWR | os.O_CREAT, 0o644)
    os.write(f, b'file %d\n' % n)
    files.append(f)
print(len(files), os.read(files[-1], 10), os.pread(files[5000], 100, 0))
for n, f in enumerate(files):
    os.pwrite(f, b'F', 0)
    assert os.lseek(f, 0, os.SEEK_CUR) == len(b'file %d\n' % n)
print(sum(os.pread(f, 100, 0) == b'File %d\n' % n for n, f in enumerate(files)))
for n in range(0, 10000, 2):
    os.unlink('f%d' % n)
print(len(os.listdir('.')), sum(os.fstat(f).st_nlink for f in files), os.pread(files[0], 100, 0))
try:
    while True:
        files.append(os.open('f1', os.O_RDONLY))
except OSError as error:
    print(len(files) > 11900, error.strerror)
for f in files:
    os.close(f)
print(sum(open('f%d' % n, 'rb').read() == b'File %d\n' % n for n in range(1, 10000, 2)))
for n in range(1, 10000, 2):
    os.unlink('f%d' % n)
os.sync()
after = os.statvfs('.')
# The folder itself has grown.
print(os.listdir('.'), before.f_ffree - after.f_ffree, before.f_bfree - after.f_bfree < 200)
END
