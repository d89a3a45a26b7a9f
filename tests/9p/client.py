"""A tree that is mounted by 9P, as root and as user 1000. What is printed is the same wherever the tree is."""
import errno, fcntl, hashlib, mmap, os, signal, stat, struct, subprocess, sys, time

PLACE = sys.argv[1]
os.chdir(PLACE)
os.umask(0o022)


def tell(what, act):
    try:
        result = act()
        print(what, "" if result is None else result)
    except OSError as error:
        print(what, errno.errorcode.get(error.errno, error.errno))


def write(name, data, mode="wb"):
    with open(name, mode) as file:
        file.write(data)


def read(name):
    with open(name, "rb") as file:
        return file.read()


def about(name):
    s = os.lstat(name)
    size = s.st_size if not stat.S_ISDIR(s.st_mode) else "-"
    return "%o %d %d %d %s" % (s.st_mode, s.st_nlink if not stat.S_ISDIR(s.st_mode) else 0, s.st_uid, s.st_gid, size)


def as_user(act, uid=1000, gid=1000, groups=(1000,)):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.setgroups(groups)
        os.setgid(gid)
        os.setuid(uid)
        act()
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print("the child failed")


def files():
    tell("mkdir", lambda: os.mkdir("d", 0o755))
    tell("mkdir again", lambda: os.mkdir("d"))
    tell("write", lambda: write("d/file", b"hello\n"))
    tell("append", lambda: write("d/file", b"more\n", "ab"))
    tell("read", lambda: read("d/file"))
    tell("about", lambda: about("d/file"))
    tell("no file", lambda: read("d/none"))
    tell("a file as a folder", lambda: read("d/file/x"))
    tell("exclusive", lambda: os.open("d/file", os.O_CREAT | os.O_EXCL))
    tell("truncate", lambda: os.truncate("d/file", 3))
    tell("read", lambda: read("d/file"))
    tell("grow", lambda: os.truncate("d/file", 10))
    tell("read", lambda: read("d/file"))
    tell("rename", lambda: os.rename("d/file", "renamed"))
    tell("rename over", lambda: (write("d/other", b"other"), os.rename("renamed", "d/other"), read("d/other"))[2])
    tell("rename a folder into itself", lambda: os.rename("d", "d/x"))
    tell("hard link", lambda: os.link("d/other", "hard"))
    tell("same file", lambda: os.path.samefile("hard", "d/other"))
    tell("about", lambda: about("hard"))
    tell("link of a folder", lambda: os.link("d", "dd"))
    tell("symbolic link", lambda: os.symlink("d/other", "link"))
    tell("target", lambda: os.readlink("link"))
    tell("through it", lambda: read("link"))
    tell("about", lambda: about("link"))
    tell("out of the tree", lambda: (os.symlink("/etc/hostname", "out"), os.readlink("out"))[1])
    tell("unlink", lambda: os.unlink("hard"))
    tell("rmdir of a full folder", lambda: os.rmdir("d"))
    tell("unlink of a folder", lambda: os.unlink("d"))
    tell("fifo", lambda: (os.mkfifo("fifo", 0o640), about("fifo"))[1])
    tell("device", lambda: (os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3)), os.lstat("null").st_rdev)[1])
    tell("socket", lambda: (os.mknod("socket", stat.S_IFSOCK | 0o600), about("socket"))[1])
    tell("chmod", lambda: (os.chmod("d/other", 0o4711), about("d/other"))[1])
    tell("chown", lambda: (os.chown("d/other", 1000, 50), about("d/other"))[1])
    tell("chown of a link", lambda: (os.chown("link", 7, 8, follow_symlinks=False), about("link"))[1])
    tell("times", lambda: (os.utime("d/other", (1, 2)), os.stat("d/other").st_atime_ns, os.stat("d/other").st_mtime_ns)[1:])
    tell("now", lambda: (os.utime("d/other"), abs(os.stat("d/other").st_mtime - os.stat("d/other").st_ctime) < 5)[1])
    tell("long name", lambda: (write("n" * 255, b""), os.unlink("n" * 255))[1])
    tell("too long", lambda: write("n" * 256, b""))
    fd = os.open("gone", os.O_CREAT | os.O_RDWR, 0o600)
    os.write(fd, b"still there")
    os.unlink("gone")
    tell("a file without a name", lambda: (os.pread(fd, 100, 0), os.fstat(fd).st_size, os.ftruncate(fd, 5), os.fstat(fd).st_size))
    os.close(fd)
    fd = os.open("sync", os.O_CREAT | os.O_RDWR, 0o600)
    os.write(fd, b"x" * 5000)
    tell("fsync", lambda: os.fsync(fd))
    tell("fdatasync", lambda: os.fdatasync(fd))
    os.close(fd)
    space = os.statvfs(".")
    tell("statfs", lambda: (space.f_blocks > space.f_bfree > 0, space.f_files > 0, space.f_namemax))
    tell("mapped", lambda: mapped())


def mapped():
    write("map", b"a" * 10000)
    with open("map", "rb") as file:
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE) as area:
            return area[9990:10000]


def attributes():
    write("attributes", b"")
    tell("none", lambda: os.listxattr("attributes"))
    tell("get", lambda: os.getxattr("attributes", "user.one"))
    tell("set", lambda: os.setxattr("attributes", "user.one", b"value\0x"))
    tell("get", lambda: os.getxattr("attributes", "user.one"))
    tell("large", lambda: (os.setxattr("attributes", "user.two", b"y" * 2000), len(os.getxattr("attributes", "user.two")))[1])
    tell("list", lambda: sorted(os.listxattr("attributes")))
    tell("create", lambda: os.setxattr("attributes", "user.one", b"z", os.XATTR_CREATE))
    tell("replace", lambda: os.setxattr("attributes", "user.three", b"z", os.XATTR_REPLACE))
    tell("remove", lambda: os.removexattr("attributes", "user.one"))
    tell("remove again", lambda: os.removexattr("attributes", "user.one"))
    tell("trusted", lambda: (os.setxattr("attributes", "trusted.t", b"t"), os.getxattr("attributes", "trusted.t"))[1])
    tell("list", lambda: sorted(os.listxattr("attributes")))


def lock(fd, kind, start=0, length=0, command=fcntl.F_SETLK):
    return fcntl.fcntl(fd, command, struct.pack("hhqqi4x", kind, 0, start, length, 0))


def locks():
    write("locks", b"z" * 100)
    fd = os.open("locks", os.O_RDWR)
    tell("lock", lambda: lock(fd, fcntl.F_WRLCK, 10, 10) and None)
    sys.stdout.flush()
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        other = os.open("locks", os.O_RDWR)
        tell("another's lock", lambda: lock(other, fcntl.F_WRLCK, 15, 1) and None)
        tell("beside it", lambda: lock(other, fcntl.F_WRLCK, 20, 10) and None)
        sys.stdout.flush()
        os.write(ready[1], b"x")
        begun = time.monotonic()
        tell("waiting", lambda: lock(other, fcntl.F_WRLCK, 10, 10, fcntl.F_SETLKW) and None)
        print("it waited", 0.2 < time.monotonic() - begun < 20)
        sys.stdout.flush()
        os._exit(0)
    os.read(ready[0], 1)
    time.sleep(1)
    tell("meanwhile", lambda: read("locks")[:3])
    lock(fd, fcntl.F_UNLCK)
    os.waitpid(child, 0)
    tell("after its end", lambda: lock(fd, fcntl.F_WRLCK, 0, 0) and None)
    sys.stdout.flush()
    # A signal ends the waiting for a lock.
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, interrupted)
        signal.alarm(1)
        other = os.open("locks", os.O_RDWR)
        try:
            lock(other, fcntl.F_WRLCK, 0, 0, fcntl.F_SETLKW)
            print("it got the lock")
        except InterruptedError:
            print("interrupted")
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
    os.close(fd)


def interrupted(*_):
    raise InterruptedError


def users():
    os.mkdir("shared")
    os.chmod("shared", 0o1777)
    os.mkdir("closed", 0o700)
    write("closed/file", b"secret")
    write("secret", b"secret")
    os.chmod("secret", 0o600)
    write("shared/root", b"root's")
    write("for-group", b"group's")
    os.chown("for-group", 0, 50)
    os.chmod("for-group", 0o640)

    def user():
        tell("secret", lambda: read("secret"))
        tell("in a closed folder", lambda: read("closed/file"))
        tell("list it", lambda: os.listdir("closed"))
        tell("write root's", lambda: write("shared/root", b"mine", "r+b"))
        tell("read root's", lambda: read("shared/root"))
        tell("remove root's", lambda: os.unlink("shared/root"))
        tell("make where it may not", lambda: write("mine", b""))
        tell("make", lambda: (write("shared/mine", b"mine"), about("shared/mine"))[1])
        tell("folder", lambda: (os.mkdir("shared/dir"), about("shared/dir"))[1])
        tell("link", lambda: (os.symlink("x", "shared/link"), about("shared/link"))[1])
        tell("chmod root's", lambda: os.chmod("secret", 0o666))
        tell("chown", lambda: os.chown("shared/mine", 0, 0))
        tell("chmod", lambda: (os.chmod("shared/mine", 0o600), about("shared/mine"))[1])
        tell("group's", lambda: read("for-group"))
        tell("device", lambda: os.mknod("shared/null", stat.S_IFCHR | 0o666, os.makedev(1, 3)))

    as_user(user)
    as_user(lambda: (tell("another's", lambda: read("shared/mine")), tell("remove", lambda: os.unlink("shared/mine"))), 1001, 1001, ())
    tell("about", lambda: about("shared/mine"))
    tell("root reads", lambda: read("shared/mine"))


def summed(folder):
    total = hashlib.sha256()
    for at, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(at, name)
            total.update(path[len(folder):].encode())
            total.update(about(path).encode())
            total.update(read(path) if stat.S_ISREG(os.lstat(path).st_mode) else os.readlink(path).encode())
    return total.hexdigest()


def many():
    os.mkdir("many")
    for number in range(200):
        folder = "many/%d" % (number % 7)
        os.makedirs(folder, exist_ok=True)
        write("%s/%03d" % (folder, number), bytes(range(256)) * (number % 40) + b"%d" % number)
        if number % 20 == 0:
            os.symlink("../0/%03d" % number, "%s/link-%d" % (folder, number))
    tell("sum", lambda: summed("many"))
    run = lambda words: subprocess.run(words, shell=True, capture_output=True, text=True)
    tell("tar", lambda: run("tar cf /tmp/many.tar many && mkdir copy && tar xpf /tmp/many.tar -C copy; echo $?").stdout.strip())
    tell("same", lambda: summed("many") == summed("copy/many"))
    tell("find", lambda: run("find copy | sort | sha256sum").stdout.strip())
    tell("find links", lambda: run("find copy -type l | wc -l").stdout.strip())
    tell("rm", lambda: run("rm -r copy; echo $?; ls").stdout.split("\n")[0])
    os.mkdir("crowd")
    for number in range(500):
        os.close(os.open("crowd/a-name-that-is-not-short-%d" % number, os.O_CREAT | os.O_WRONLY, 0o600))
    tell("a folder of many", lambda: len(os.listdir("crowd")))
    data = bytes((n * n >> 5) & 255 for n in range(100000)) * 30
    tell("3 MB", lambda: (write("large", data), hashlib.sha256(read("large")).hexdigest() == hashlib.sha256(data).hexdigest())[1])


def at_once():
    sys.stdout.flush()
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            for turn in range(15):
                name = "at-once-%d-%d" % (number, turn)
                write(name, name.encode() * 500)
                if read(name) != name.encode() * 500:
                    os._exit(1)
                os.rename(name, name + "-moved")
                os.unlink(name + "-moved")
            os._exit(0)
        children.append(child)
    print("at once", [os.waitpid(child, 0)[1] for child in children], [n for n in os.listdir(".") if n.startswith("at-once")])


for part in [files, attributes, locks, users, many, at_once]:
    print("#", part.__name__)
    begun = time.monotonic()
    part()
    print("%s took %.1f s" % (part.__name__, time.monotonic() - begun), file=sys.stderr)
