# System calls whose memory is a mapped file's that is not there yet: nothing of what they move is lost, and who serves others does not wait for the disk.
# cairn-test: root=debian
head -c 4194304 /dev/zero | tr '\0' 'f' > full; truncate -s 16M hole; sync; sysctl -qw vm.drop_caches=3 2>/dev/null
python3 - <<'END'
import mmap, os, socket, termios, time
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
# (Echoes come when they like, and what is made of a newline on its own.)
modes = termios.tcgetattr(t); modes[1] &= ~termios.OPOST; modes[3] &= ~termios.ECHO; termios.tcsetattr(t, termios.TCSANOW, modes)
for n, (to, into) in enumerate([(m, t), (t, m)] * 20):
    os.write(to, b"a line\n")
    got = os.readv(into, [page(own if n % 3 else shared, 1500 + n)])
    if n > 37: print(got, bytes(page(own if n % 3 else shared, 1500 + n)[:got]))
# And what is handed out once: datagrams, streams, counters, events, messages, names of a directory, lines of the log.
import ctypes
address = lambda of: ctypes.addressof(ctypes.c_char.from_buffer(of))
libc = ctypes.CDLL(None, use_errno=True)
def both(family, kind):
    a, b = socket.socket(family, kind), socket.socket(family, kind)
    a.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0)); a.listen() if kind == socket.SOCK_STREAM else None
    b.connect(a.getsockname()[:2])
    return b, a.accept()[0] if kind == socket.SOCK_STREAM else a
n = 2000
def next_page():
    global n; n += 1; return page(own if n % 2 else shared, n)
for family in socket.AF_INET, socket.AF_INET6:
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
        x, y = both(family, kind)
        for i in range(20):
            x.send(bytes([i]) * 600); into = next_page()
            if y.recv_into(into) != 600 or bytes(into[:600]) != bytes([i]) * 600: print("inet", kind, i)
counter = os.eventfd(7); into = next_page(); print(os.readv(counter, [into]), into[0])
timer = libc.timerfd_create(1, 0); libc.timerfd_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 0, 1000000), None)
into = next_page(); print(os.readv(timer, [into]), into[0])
watch = libc.inotify_init(); libc.inotify_add_watch(watch, b".", 0x100)
open("new", "w").close(); into = next_page(); print(os.readv(watch, [into]), bytes(into[16:19]))
os.mkdir("names"); names = [f"name-{i:03}" for i in range(300)]
for name in names: open("names/" + name, "w").close()
fd = os.open("names", os.O_RDONLY); found = []
while True:
    n += 1; into = page(own, n); got = libc.syscall(217, fd, ctypes.c_void_p(address(into)), 4096)
    if got <= 0: break
    at = 0
    while at < got:
        length = int.from_bytes(into[at + 16:at + 18], "little"); found.append(bytes(into[at + 19:at + length]).split(b"\0")[0].decode()); at += length
print(sorted(found) == [".", ".."] + names); os.system("rm -r names")
queue = libc.msgget(0, 0o600); text = ctypes.create_string_buffer(b"\1" + bytes(7) + b"m" * 100)
libc.msgsnd(queue, text, 100, 0); into = next_page(); print(libc.msgrcv(queue, ctypes.c_void_p(address(into)), 1000, 0, 0), bytes(into[8:10])); libc.msgctl(queue, 0, None)
class Attributes(ctypes.Structure): _fields_ = [(name, ctypes.c_long) for name in ("flags", "most", "size", "count", "a", "b", "c", "d")]
queue = libc.mq_open(b"/cold", os.O_RDWR | os.O_CREAT, 0o600, ctypes.byref(Attributes(0, 4, 1000)))
libc.mq_send(queue, b"p" * 500, 500, 3); into = next_page(); print(libc.mq_receive(queue, ctypes.c_void_p(address(into)), 1000, None), bytes(into[:2]))
os.mkfifo("f")
print(os.writev(os.open("f", os.O_RDWR), [page(full, 900), page(own, 1400)]))
END
