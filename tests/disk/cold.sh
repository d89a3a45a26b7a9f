# System calls whose memory is a mapped file's that is not there yet: nothing of what they move is lost, and who serves others does not wait for the disk.
# cairn-test: root=debian only=linux
head -c 4194304 /dev/zero | tr '\0' 'f' > full; truncate -s 16M hole; sync; sysctl -qw vm.drop_caches=3 2>/dev/null
python3 - <<'END'
import mmap, os, socket, time
PAGE = 4096
def mapped(name, how):
    fd = os.open(name, os.O_RDWR)
    return memoryview(mmap.mmap(fd, os.fstat(fd).st_size, flags=how))
own, shared, full = mapped("hole", mmap.MAP_PRIVATE), mapped("hole", mmap.MAP_SHARED), mapped("full", mmap.MAP_SHARED)
def page(of, n, count=1): return of[n * PAGE:(n + count) * PAGE]
r, w = os.pipe()
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
wrong = 0
for i in range(0, 200, 2):
    message = bytes([i]) * 3000
    os.write(w, message)
    wrong += os.readv(r, [page(own, i), page(shared, i)]) != 3000 or bytes(page(own, i)[:3000]) != message
    a.send(message)
    wrong += b.recv_into(page(own, i + 1)) != 3000 or bytes(page(own, i + 1)[:3000]) != message
print("received into cold pages:", wrong, "wrong")
wrong = 0
for i in range(300, 600):
    wrong += os.write(w, page(own, i)) != PAGE or os.read(r, 2 * PAGE) != bytes(PAGE)
    wrong += a.send(page(full, i)) != PAGE or b.recv(2 * PAGE) != b"f" * PAGE
c, d = socket.socketpair()
for i in range(600, 700):
    c.send(b"stream" * 500)
    wrong += d.recvmsg_into([page(own, i), page(shared, i)])[0] != 3000 or bytes(page(own, i)[:3000]) != b"stream" * 500
print("sent from cold pages, and as streams:", wrong, "wrong")
zero, null, random = (os.open("/dev/" + name, os.O_RDWR) for name in ("zero", "null", "urandom"))
print(os.readv(zero, [page(shared, 1000, 8)]), os.write(null, page(full, 700, 8)), os.readv(random, [page(own, 1100, 8)]), any(page(own, 1107)))
with open("/proc/self/status", "rb") as status: print(status.raw.readinto(page(own, 1200)) > 100, bytes(page(own, 1200)[:6]))
end, out = os.pipe()
if os.fork() == 0:
    time.sleep(0.05); os.write(out, b"late" * 1000); os._exit(0)
print(os.readv(end, [page(own, 1300), page(shared, 1301)]), bytes(page(own, 1300)[:8])); os.wait()
m, t = os.openpty()
for n, (to, into) in enumerate([(m, t), (t, m)] * 20):
    os.write(to, b"a line\n")
    got = os.readv(into, [page(own if n % 3 else shared, 1500 + n)])
    if n > 37: print(got, bytes(page(own if n % 3 else shared, 1500 + n)[:got]))
os.mkfifo("f")
print(os.writev(os.open("f", os.O_RDWR), [page(full, 900), page(own, 1400)]))
END
