# All that can be seen of the file system at the working directory, a line for each name.
python3 - <<'END'
import hashlib, os, stat
for folder, folders, files in os.walk(b'.'):
    folders.sort()
    for name in sorted(folders + files):
        path = os.path.join(folder, name)
        s = os.lstat(path)
        kind = stat.S_IFMT(s.st_mode)
        what = ''
        if kind == stat.S_IFLNK:
            what = os.readlink(path).decode()
        elif kind == stat.S_IFREG:
            digest = hashlib.sha256()
            # A hole is told by its place; reading gigabytes of zeros tells no more.
            with open(path, 'rb') as file:
                at = 0
                while at < s.st_size:
                    try:
                        at = os.lseek(file.fileno(), at, os.SEEK_DATA)
                    except OSError:
                        break
                    end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
                    while at < end:
                        data = os.pread(file.fileno(), min(end - at, 1 << 20), at)
                        if data.strip(b'\0'):
                            digest.update(b'%d' % at + data.rstrip(b'\0'))
                        at += len(data)
            what = digest.hexdigest()
        size = s.st_size if kind != stat.S_IFDIR else '-'
        device = '%d:%d' % (os.major(s.st_rdev), os.minor(s.st_rdev))
        extra = [(n, os.getxattr(path, n, follow_symlinks=False)) for n in sorted(os.listxattr(path, follow_symlinks=False))]
        print(repr(path), oct(s.st_mode), s.st_nlink, s.st_uid, s.st_gid, size, s.st_mtime_ns, device, what, extra)
END
