# One worker of `./cairn stress --restart`, in a folder of its own ($1) for $2 seconds, with numbers of its own ($3): it makes, writes, cuts, renames and removes files, and knows what each must be.
# File servers are killed meanwhile: everything has to be as it was made, synced or not, and nobody may be told that something was lost.
import os, sys, time

class Wrong(Exception):
    pass

state = int(sys.argv[3]) * 7919 + 1

def below(n):
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return (state >> 33) % n

def told(call, *arguments):
    """The call's result."""
    try:
        return call(*arguments)
    except OSError as failure:
        raise Wrong('%s%r: %s' % (call.__name__, arguments[:2], failure))

def some_bytes():
    return bytes([65 + below(26)]) * (1 + below(20000))

class File:
    def __init__(self, name):
        self.name, self.want, self.fd = name, b'', None
        self.anew()

    def close(self):
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def anew(self):
        """A new file of this name with what the model says."""
        self.close()
        self.fd = told(os.open, self.name + '.new', os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        self.put(0, self.want)
        told(os.rename, self.name + '.new', self.name)
        if told(os.stat, self.name).st_ino != told(os.fstat, self.fd).st_ino:
            raise Wrong('%s: another file after a rename' % self.name)

    def put(self, at, data):
        while data:
            done = told(os.pwrite, self.fd, data, at)
            at, data = at + done, data[done:]

    def write(self):
        at, data = below(len(self.want) + 1), some_bytes()
        self.want = self.want[:at] + data + self.want[at + len(data):]
        self.put(at, data)

    def cut(self):
        length = below(len(self.want) + 1)
        self.want = self.want[:length]
        told(os.ftruncate, self.fd, length)

    def sync(self):
        told(os.fsync, self.fd)

    def compare(self):
        self.same(self.fd)

    def compare_by_name(self):
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
            more = ('%s (inode %d)' % (self.name, os.fstat(fd).st_ino), len(got), len(self.want), got[at:at + 4], self.want[at:at + 4], at, got[at:].count(got[at:at + 1]))
            raise Wrong('%s: %d bytes, should be %d; %r instead of %r at %d (%d times until the end)' % more)

    def rename(self):
        number[0] += 1
        old, self.name = self.name, 'f%d' % number[0]
        told(os.rename, old, self.name)
        if os.path.exists(old) or not os.path.exists(self.name):
            raise Wrong('%s: a rename was undone' % old)

    def without_name(self):
        """Goes on without its name for a while."""
        told(os.unlink, self.name)
        for _ in range(4):
            self.write()
            self.compare()
            if os.path.exists(self.name):
                raise Wrong('%s: its name is back' % self.name)
        self.anew()

def names():
    """Of things that are made and removed once, and must be what they are made."""
    number[0] += 1
    name = 'n%d' % number[0]
    told(os.mkdir, name, 0o711)
    told(os.symlink, 'x' * (1 + below(100)), name + '/link')
    told(os.close, told(os.open, name + '/file', os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444))
    told(os.chmod, name + '/file', 0o604)
    told(os.link, name + '/file', name + '/other')
    about = told(os.stat, name + '/file')
    if about.st_mode != 0o100604 or about.st_nlink != 2 or sorted(told(os.listdir, name)) != ['file', 'link', 'other']:
        raise Wrong('%s: %r' % (name, about))
    for inside in 'file', 'link', 'other':
        told(os.unlink, name + '/' + inside)
    told(os.rmdir, name)

operations = 0
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
        does = [file.write, file.write, file.write, file.cut, file.sync, file.compare, file.compare_by_name, file.rename, file.without_name, names][below(10)]
        operations += 1
        does()
    for file in files:
        file.compare()
        file.compare_by_name()
        file.close()
    left = sorted(set(os.listdir('.')) - {f.name for f in files})
    if left:
        raise Wrong('names that should not be there: %r' % left)
except Wrong as wrong:
    print('WRONG worker %s: %s' % (sys.argv[3], wrong))
print('RAN %d' % operations)
