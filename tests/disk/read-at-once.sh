# preadv2 with RWF_NOWAIT: what is in memory, or EAGAIN; writes and other files do not know it.
# cairn-test: root=debian
head -c 300000 /dev/zero | tr '\0' 'x' > f; echo end >> f; cat f >/dev/null; mkdir -p /tmp/memory; mount -t tmpfs none /tmp/memory
cat > /tmp/at-once.py <<'END'
import os, errno, time
def tell(what, call):
    try: print(what, call(), flush=True)
    except OSError as error: print(what, errno.errorcode[error.errno], flush=True)
def at_once(fd, length, at, pieces=1):
    into = [bytearray(length // pieces) for _ in range(pieces)]
    while True:
        try:
            count = os.preadv(fd, into, at, os.RWF_NOWAIT)
            return count, b''.join(into)[:8]
        except BlockingIOError: time.sleep(0.001)
fd = os.open('f', os.O_RDWR)
tell('a page', lambda: at_once(fd, 4096, 8192))
tell('in pieces', lambda: at_once(fd, 4096, 200000, 4))
tell('the end', lambda: at_once(fd, 4, 300000))
tell('behind it', lambda: at_once(fd, 4096, 400000))
tell('of the position', lambda: (at_once(fd, 10, -1), os.lseek(fd, 0, os.SEEK_CUR)))
tell('write', lambda: os.pwritev(fd, [b'no'], 0, os.RWF_NOWAIT))
tell('write as usual', lambda: os.pwritev(fd, [b'yes'], 0, 0))
tell('then', lambda: at_once(fd, 4, 0))
tmp = os.open('/tmp/memory/at-once', os.O_RDWR | os.O_CREAT)
os.write(tmp, b'text')
tell('tmpfs', lambda: at_once(tmp, 4, 0))
os.unlink('/tmp/memory/at-once')
proc = os.open('/proc/self/stat', os.O_RDONLY)
tell('proc', lambda: at_once(proc, 4, 0))
pipe, end = os.pipe()
tell('pipe', lambda: os.preadv(pipe, [bytearray(4)], -1, os.RWF_NOWAIT))
END
python3 /tmp/at-once.py; umount /tmp/memory; rm -r /tmp/at-once.py /tmp/memory f
