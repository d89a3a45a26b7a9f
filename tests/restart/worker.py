# One worker of `./cairn stress --restart`, in a folder of its own ($1) for $2 seconds, with numbers of its own ($3): it makes, writes, cuts, renames and removes files, and knows what each must be.
# File servers are killed meanwhile. What was synced has to be there; what was not may be lost, but whoever has the file open must be told (EIO), and goes on with a new file.
import errno, os, sys, time

class Lost(Exception):
    pass

class Wrong(Exception):
    pass

state = int(sys.argv[3]) * 7919 + 1

def below(n):
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return (state >> 33) % n

def told(call, *arguments, allowed=(errno.EIO,)):
    """The call's result. Lost: the system says that something is gone."""
    try:
        return call(*arguments)
    except OSError as failure:
        if failure.errno in allowed:
            raise Lost(call.__name__)
        raise Wrong('%s%r: %s' % (call.__name__, arguments[:2], failure))

def some_bytes():
    return bytes([65 + below(26)]) * (1 + below(20000))

class File:
    def __init__(self, name):
        self.name, self.want, self.fd, self.synced = name, b'', None, False
        self.anew()

    def close(self):
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def anew(self):
        """A new file of this name with what the model says, synced."""
        while True:
            try:
                self.close()
                self.fd = told(os.open, self.name + '.new', os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
                self.put(0, self.want)
                told(os.fsync, self.fd)
                # The name may be lost before it is synced.
                told(os.rename, self.name + '.new', self.name, allowed=(errno.EIO, errno.ENOENT))
                sync_folder()
                if told(os.stat, self.name, allowed=(errno.EIO, errno.ENOENT)).st_ino != told(os.fstat, self.fd).st_ino:
                    raise Lost('rename')
                self.synced = True
                return
            except Lost:
                count['anew'] += 1

    def put(self, at, data):
        while data:
            done = told(os.pwrite, self.fd, data, at)
            at, data = at + done, data[done:]

    def write(self):
        at, data = below(len(self.want) + 1), some_bytes()
        self.synced = False
        self.want = self.want[:at] + data + self.want[at + len(data):]
        self.put(at, data)

    def cut(self):
        length = below(len(self.want) + 1)
        self.synced = False
        self.want = self.want[:length]
        told(os.ftruncate, self.fd, length)

    def sync(self):
        told(os.fsync, self.fd)
        self.synced = True

    def compare(self):
        self.same(self.fd)

    def compare_by_name(self):
        """Nobody tells a new handle of what was lost, so only for what was synced."""
        if self.synced:
            fd = told(os.open, self.name, os.O_RDONLY)
            try:
                self.same(fd)
            finally:
                os.close(fd)

    def same(self, fd):
        got = b''
        while True:
            part = told(os.pread, fd, 65536, len(got))
            if not part:
                break
            got += part
        if got != self.want:
            at = next((i for i, (a, b) in enumerate(zip(got, self.want)) if a != b), min(len(got), len(self.want)))
            more = ('%s (inode %d)' % (self.name, os.fstat(fd).st_ino), len(got), len(self.want), got[at:at + 4], self.want[at:at + 4], at, got[at:].count(got[at:at + 1]), self.synced)
            raise Wrong('%s: %d bytes, should be %d; %r instead of %r at %d (%d times until the end; synced: %s)' % more)

    def rename(self):
        self.sync()
        number[0] += 1
        old, self.name = self.name, 'f%d' % number[0]
        told(os.rename, old, self.name)
        sync_folder()
        if not os.path.exists(self.name):
            if not os.path.exists(old):
                raise Wrong('%s: neither old nor new name' % old)
            count['undone'] += 1
            self.name = old

    def without_name(self):
        """Goes on without its name for a while."""
        self.sync()
        told(os.unlink, self.name)
        for _ in range(4):
            self.write()
            self.compare()
        raise Lost('name')

def sync_folder():
    fd = told(os.open, '.', os.O_RDONLY)
    try:
        told(os.fsync, fd)
    finally:
        os.close(fd)

count = {'operations': 0, 'anew': 0, 'undone': 0}
number = [0]
os.makedirs(sys.argv[1], exist_ok=True)
os.chdir(sys.argv[1])
files = []
for _ in range(6):
    number[0] += 1
    files.append(File('f%d' % number[0]))
end = time.monotonic() + int(sys.argv[2])
try:
    while time.monotonic() < end:
        file = files[below(len(files))]
        does = [file.write, file.write, file.write, file.cut, file.sync, file.compare, file.compare_by_name, file.rename, file.without_name][below(9)]
        count['operations'] += 1
        try:
            does()
        except Lost:
            file.anew()
    for file in files:
        file.anew()
        file.compare_by_name()
        file.close()
    left = sorted(set(os.listdir('.')) - {f.name for f in files} - {f.name + '.new' for f in files})
    # Names whose removal was undone may be left, each of a file that was synced.
    print('worker %s: %d files anew, %d renames undone, %d names back' % (sys.argv[3], count['anew'], count['undone'], len(left)))
except Wrong as wrong:
    print('WRONG worker %s: %s' % (sys.argv[3], wrong))
print('RAN %d' % count['operations'])
