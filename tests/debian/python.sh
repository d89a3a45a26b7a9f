# CPython: threads, processes, files, mappings, timers, polling.
python3 - <<'END'
import os, json, threading, tempfile, subprocess, signal, time, mmap, select, socket, hashlib, struct, errno
squares = []
threads = [threading.Thread(target=lambda i=i: squares.append(i * i)) for i in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(squares), json.dumps({"a": [1, 2, {"b": None}]}), 2 ** 200)
handle, path = tempfile.mkstemp(dir=".")
os.write(handle, b"hello"); os.close(handle)
print(open(path).read()); os.unlink(path)
print(subprocess.run(["echo", "hi"], capture_output=True).stdout, subprocess.run(["false"]).returncode)
r, w = os.pipe()
child = os.fork()
if child == 0:
    os.write(w, b"child"); os._exit(3)
print(os.read(r, 10), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.signal(signal.SIGALRM, lambda *a: print("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.05); time.sleep(0.2)
with open("mapped", "w+b") as file:
    file.truncate(8192)
    view = mmap.mmap(file.fileno(), 8192); view[4094:4098] = b"1234"; view.flush()
    file.seek(4094); print(file.read(4))
poll = select.poll(); poll.register(r, select.POLLIN); os.write(w, b"x"); print(len(poll.poll(100)), os.read(r, 1))
epoll = select.epoll(); epoll.register(r, select.EPOLLIN); print(epoll.poll(0)); os.write(w, b"y"); print(len(epoll.poll(1)))
a, b = socket.socketpair(); a.send(b"abc"); print(b.recv(3))
lock, total = threading.Lock(), 0
def add():
    global total
    for _ in range(2000):
        with lock: total += 1
threads = [threading.Thread(target=add) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(total, hashlib.sha256(b"cairn").hexdigest(), struct.pack("<Qd", 7, 0.5))
for call, arguments in ((os.open, ("/nowhere/x", os.O_RDONLY)), (os.mkdir, ("/tmp",)), (os.rmdir, ("/tmp/..",)), (os.kill, (1 << 22, 0))):
    try: call(*arguments)
    except OSError as why: print(call.__name__, errno.errorcode[why.errno])
os.makedirs("t/u/v"); os.symlink("u", "t/l"); print(sorted(os.listdir("t")), os.path.relpath(os.path.realpath("t/l/v")))
print([(d, sorted(s), f) for d, s, f in sorted(os.walk("t"))])
END
echo "status $?"
