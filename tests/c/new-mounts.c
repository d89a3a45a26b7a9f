/* fsopen, fsconfig, fsmount, fspick, open_tree, move_mount, mount_setattr: mounts by descriptors. Errors in their order; a mount without a place lives as long
 * as its descriptor; who has no privilege makes none. cairn-test: cores=2 musl=no */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OPEN_TREE = 428, MOVE_MOUNT, FSOPEN, FSCONFIG, FSMOUNT, FSPICK, SETATTR = 442 };
enum { FLAG, STRING, BINARY, PATH, PATH_EMPTY, FD, CREATE, RECONFIGURE };
#define CLONE 1
#define EMPTY 0x1000
#define RECURSIVE 0x8000
#define FROM_EMPTY 4
#define TO_EMPTY 0x40

static int opened(const char *kind, unsigned flags) { return syscall(FSOPEN, kind, flags); }
static int set(int fd, unsigned what, const char *key, const void *value, int aux) { return syscall(FSCONFIG, fd, what, key, value, aux); }
static int fsmounted(int fd, unsigned flags, unsigned attributes) { return syscall(FSMOUNT, fd, flags, attributes); }
static int picked(int fd, const char *path, unsigned flags) { return syscall(FSPICK, fd, path, flags); }
static int tree(int fd, const char *path, unsigned flags) { return syscall(OPEN_TREE, fd, path, flags); }
static int moved(int from, const char *old, int to, const char *new, unsigned flags) { return syscall(MOVE_MOUNT, from, old, to, new, flags); }
static int onto(int fd, const char *new) { return moved(fd, "", AT_FDCWD, new, FROM_EMPTY); }
static int attributes(int fd, const char *path, unsigned flags, uint64_t on, uint64_t off, uint64_t propagation) {
    uint64_t attr[4] = {on, off, propagation, 0};
    return syscall(SETATTR, fd, path, flags, attr, sizeof attr);
}

static int tell(const char *what, int result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "done");
    return result;
}

static void messages(int fd) {
    char text[256];
    for (;;) {
        ssize_t length = read(fd, text, sizeof text - 1);
        if (length < 0) return (void)printf("  no message: %s\n", strerror(errno));
        text[length] = 0;
        printf("  message %s%s", text, length && text[length - 1] == '\n' ? "" : "|\n");
    }
}

static int put(int folder, const char *path, const char *text) {
    int fd = openat(folder, path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (fd < 0) return -1;
    int result = write(fd, text, strlen(text)) < 0 ? -1 : 0;
    close(fd);
    return result;
}

static void show(int folder, const char *path) {
    char text[64] = "";
    int fd = openat(folder, path, O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0) printf("%s: %s\n", path, strerror(errno));
    else printf("%s: %s\n", path, text);
    if (fd >= 0) close(fd);
}

/* Lines of this process's mountinfo whose place begins so: place, type, options. */
static void mounts(const char *begins) {
    char line[512], place[256], options[256], kind[64];
    FILE *file = fopen("/proc/self/mountinfo", "r");
    if (!file) return (void)printf("mountinfo: %s\n", strerror(errno));
    while (fgets(line, sizeof line, file)) {
        char *dash = strstr(line, " - ");
        if (!dash || sscanf(line, "%*d %*d %*s %*s %255s %255s", place, options) != 2) continue;
        sscanf(dash, " - %63s", kind);
        if (!strcmp(kind, "rootfs")) strcpy(kind, "tmpfs");
        if (!strncmp(place, begins, strlen(begins)))
            printf("  %s %s %.2s%s%s%s\n", place, kind, options, strstr(options, "nosuid") ? " nosuid" : "", strstr(options, "nodev") ? " nodev" : "", strstr(options, "noexec") ? " noexec" : "");
    }
    fclose(file);
}

static int new_tmpfs(unsigned flags) {
    int fd = opened("tmpfs", 1);
    if (fd < 0 || set(fd, STRING, "mode", "755", 0) || set(fd, CREATE, NULL, NULL, 0)) return -1;
    int mount = fsmounted(fd, 1, flags);
    close(fd);
    return mount;
}

static void contexts(void) {
    char long_text[300];
    memset(long_text, 'x', sizeof long_text - 1), long_text[sizeof long_text - 1] = 0;
    tell("fsopen unknown flags", opened("tmpfs", 2)), tell("fsopen unknown type", opened("none-such", 0)), tell("fsopen null", opened(NULL, 0)),
        tell("fsopen bad address", opened((char *)8, 0));
    int fd = tell("fsopen", opened("tmpfs", 0)), plain = open("/tmp/nm/plain", O_RDONLY), path = open("/tmp/nm", O_PATH);
    printf("close on exec %d\n", fcntl(fd, F_GETFD));
    char link[64] = "", name[64];
    sprintf(name, "/proc/self/fd/%d", fd);
    if (readlink(name, link, sizeof link - 1) > 0) printf("it is %s\n", link);
    struct pollfd ready = {.fd = fd, .events = POLLIN | POLLOUT};
    printf("poll %d %#x\n", poll(&ready, 1, 0), ready.revents);
    tell("lseek", lseek(fd, 0, SEEK_SET)), tell("write", write(fd, "x", 1));
    tell("bad descriptor", set(-1, FLAG, "ro", NULL, 0)), tell("closed descriptor", set(999, FLAG, "ro", NULL, 0)),
        tell("another file", set(plain, FLAG, "ro", NULL, 0)), tell("a path", set(path, FLAG, "ro", NULL, 0));
    tell("unknown command", set(fd, 99, NULL, NULL, 0));
    tell("flag without key", set(fd, FLAG, NULL, NULL, 0)), tell("flag with value", set(fd, FLAG, "ro", "x", 0)),
        tell("flag with aux", set(fd, FLAG, "ro", NULL, 1));
    tell("string without value", set(fd, STRING, "mode", NULL, 0)), tell("string with aux", set(fd, STRING, "mode", "755", 1));
    tell("binary of no length", set(fd, BINARY, "x", "x", 0)), tell("binary too long", set(fd, BINARY, "x", "x", 1024 * 1024 + 1)),
        tell("binary bad address", set(fd, BINARY, "x", (char *)8, 3));
    tell("path wrong folder", set(fd, PATH, "x", "/", -2)), tell("path empty", set(fd, PATH, "x", "", AT_FDCWD)),
        tell("path bad address", set(fd, PATH, "x", (char *)8, AT_FDCWD));
    tell("fd with value", set(fd, FD, "x", "y", 0)), tell("fd not open", set(fd, FD, "x", NULL, 999)),
        tell("create with key", set(fd, CREATE, "x", NULL, 0)), tell("reconfigure with aux", set(fd, RECONFIGURE, NULL, NULL, 1));
    tell("key bad address", set(fd, FLAG, (char *)8, NULL, 0)), tell("long key", set(fd, FLAG, long_text, NULL, 0)),
        tell("long value", set(fd, STRING, "mode", long_text, 0));
    messages(fd);
    tell("unknown parameter", set(fd, FLAG, "nosuch", NULL, 0)), tell("unknown with value", set(fd, STRING, "other", "1", 0)), messages(fd);
    tell("bad mode", set(fd, STRING, "mode", "9", 0)), tell("mode as flag", set(fd, FLAG, "mode", NULL, 0)),
        tell("uid", set(fd, STRING, "uid", "many", 0)), messages(fd);
    tell("source", set(fd, STRING, "source", "here", 0)), tell("another source", set(fd, STRING, "source", "there", 0)),
        tell("source as flag", set(fd, FLAG, "source", NULL, 0)), messages(fd);
    tell("binary", set(fd, BINARY, "thing", "abc", 3)), tell("path value", set(fd, PATH, "thing", "/tmp", AT_FDCWD)),
        tell("fd value", set(fd, FD, "thing", NULL, plain)), messages(fd);
    tell("short read", set(fd, FLAG, "nosuch", NULL, 0)), tell("  read", read(fd, long_text, 3)), messages(fd);
    for (int n = 0; n < 10; n++) {
        sprintf(name, "n%d", n);
        set(fd, FLAG, name, NULL, 0);
    }
    messages(fd);
    tell("fsmount before", fsmounted(fd, 0, 0)), tell("reconfigure before", set(fd, RECONFIGURE, NULL, NULL, 0));
    tell("mode", set(fd, STRING, "mode", "700", 0)), tell("ro", set(fd, FLAG, "ro", NULL, 0)), tell("rw", set(fd, STRING, "rw", "x", 0));
    tell("create", set(fd, CREATE, NULL, NULL, 0)), tell("create again", set(fd, CREATE, NULL, NULL, 0)),
        tell("too late", set(fd, STRING, "mode", "700", 0)), tell("too late to change", set(fd, RECONFIGURE, NULL, NULL, 0));
    tell("fsmount unknown flags", fsmounted(fd, 2, 0)), tell("fsmount unknown attributes", fsmounted(fd, 0, 1 << 22)),
        tell("fsmount idmap", fsmounted(fd, 0, 0x100000)), tell("fsmount two times", fsmounted(fd, 0, 0x30));
    tell("fsmount bad descriptor", fsmounted(-1, 0, 0)), tell("fsmount another file", fsmounted(plain, 0, 0));
    int mount = tell("fsmount", fsmounted(fd, 1, 0));
    printf("close on exec %d, a path %d\n", fcntl(mount, F_GETFD), !!(fcntl(mount, F_GETFL) & O_PATH));
    tell("fsmount again", fsmounted(fd, 0, 0));
    close(mount), close(fd);
    fd = opened("proc", 1);
    printf("close on exec %d\n", fcntl(fd, F_GETFD));
    tell("proc unknown", set(fd, FLAG, "nosuch", NULL, 0)), messages(fd), close(fd);
    fd = opened("devpts", 1), tell("legacy path", set(fd, PATH, "x", "/", AT_FDCWD)), tell("legacy binary", set(fd, BINARY, "x", "abc", 3)), close(fd);
    close(plain), close(path);
}

static void lives(void) {
    struct stat one, two;
    int mount = tell("a tmpfs", new_tmpfs(0));
    tell("a file in it", put(mount, "file", "no place yet")), show(mount, "file");
    tell("a folder in it", mkdirat(mount, "sub", 0755)), tell("deeper", put(mount, "sub/deep", "deep"));
    fstat(mount, &one);
    printf("mode %o\n", one.st_mode & 07777);
    show(mount, "../file"), show(mount, "sub/../../file");
    mounts("/tmp/nm");
    pid_t pid = fork();
    if (pid == 0) {
        show(mount, "file");
        tell("a child mounts it", onto(mount, "/tmp/nm/one"));
        fflush(stdout), _exit(0);
    }
    waitpid(pid, NULL, 0);
    show(AT_FDCWD, "/tmp/nm/one/file"), show(AT_FDCWD, "/tmp/nm/one/sub/../../plain"), show(mount, "../plain");
    stat("/tmp/nm/one", &two);
    printf("the same %d\n", one.st_dev == two.st_dev && one.st_ino == two.st_ino);
    mounts("/tmp/nm");
    tell("into itself", onto(mount, "/tmp/nm/one/sub")), tell("onto itself", onto(mount, "/tmp/nm/one"));
    tell("a folder on a file", onto(mount, "/tmp/nm/plain")), tell("no such place", onto(mount, "/tmp/nm/none"));
    tell("it moves", onto(mount, "/tmp/nm/two")), show(AT_FDCWD, "/tmp/nm/two/file"), show(AT_FDCWD, "/tmp/nm/one/file");
    mounts("/tmp/nm");
    tell("by its name", moved(AT_FDCWD, "/tmp/nm/two", AT_FDCWD, "/tmp/nm/one", 0)),
        tell("by what is no mount", moved(AT_FDCWD, "/tmp/nm/one/sub", AT_FDCWD, "/tmp/nm/two", 0));
    tell("MS_MOVE", mount >= 0 ? syscall(SYS_mount, "/tmp/nm/one", "/tmp/nm/two", NULL, MS_MOVE, NULL) : -1), show(AT_FDCWD, "/tmp/nm/two/sub/deep");
    tell("umount", umount2("/tmp/nm/two", MNT_DETACH)), show(mount, "file");
    tell("it was mounted once", onto(mount, "/tmp/nm/one"));
    close(mount);
    tell("move flags", moved(AT_FDCWD, "/tmp/nm/one", AT_FDCWD, "/tmp/nm/two", 0x200)),
        tell("move from nothing", moved(AT_FDCWD, "", AT_FDCWD, "/tmp/nm/two", 0)),
        tell("move bad address", moved(AT_FDCWD, (char *)8, AT_FDCWD, "/tmp/nm/two", 0));
    tell("move the root", moved(AT_FDCWD, "/", AT_FDCWD, "/tmp/nm/two", 0)), tell("move a closed descriptor", onto(999, "/tmp/nm/two")),
        tell("set group", moved(AT_FDCWD, "/tmp/nm/one", AT_FDCWD, "/tmp/nm/two", 0x100));
    mount = new_tmpfs(0);
    int target = open("/tmp/nm/two", O_PATH);
    tell("onto a descriptor", moved(mount, "", target, "", FROM_EMPTY | TO_EMPTY)),
        tell("into a mount without a place", moved(AT_FDCWD, "/tmp/nm/two", mount, "", TO_EMPTY));
    tell("onto nothing", moved(mount, "", AT_FDCWD, "", FROM_EMPTY));
    umount2("/tmp/nm/two", MNT_DETACH), close(mount), close(target);
    int outer = new_tmpfs(0), inner = new_tmpfs(0);
    mkdirat(outer, "in", 0755);
    tell("into one without a place", moved(inner, "", outer, "in", FROM_EMPTY));
    close(outer), close(inner);
}

static void trees(void) {
    tell("open_tree unknown flags", tree(AT_FDCWD, "/tmp/nm", 2)), tell("recursive alone", tree(AT_FDCWD, "/tmp/nm", RECURSIVE)),
        tell("open_tree nothing", tree(AT_FDCWD, "", CLONE)), tell("no such name", tree(AT_FDCWD, "/tmp/nm/none", 0));
    tell("not a folder", tree(AT_FDCWD, "/tmp/nm/plain/x", 0)), tell("open_tree bad address", tree(AT_FDCWD, (char *)8, 0)),
        tell("a loop", tree(AT_FDCWD, "/tmp/nm/loop", 0)), tell("open_tree closed descriptor", tree(999, "", EMPTY));
    int fd = tell("open_tree", tree(AT_FDCWD, "/tmp/nm/plain", O_CLOEXEC));
    printf("close on exec %d, a path %d\n", fcntl(fd, F_GETFD), !!(fcntl(fd, F_GETFL) & O_PATH));
    tell("read it", read(fd, &fd, 0)), close(fd);
    fd = tree(AT_FDCWD, "/tmp/nm/link", AT_SYMLINK_NOFOLLOW);
    struct stat status;
    fstat(fd, &status), printf("a link %d\n", S_ISLNK(status.st_mode)), close(fd);
    mount("none", "/tmp/nm/one", "tmpfs", 0, "mode=755"), put(AT_FDCWD, "/tmp/nm/one/file", "in one"), mkdir("/tmp/nm/one/a", 0755);
    mount("none", "/tmp/nm/one/a", "tmpfs", 0, "mode=755"), put(AT_FDCWD, "/tmp/nm/one/a/file", "in a"), mkdir("/tmp/nm/one/a/b", 0755);
    mount("none", "/tmp/nm/one/a/b", "tmpfs", 0, "mode=755"), put(AT_FDCWD, "/tmp/nm/one/a/b/file", "in b");
    int plain = tell("no copy", tree(AT_FDCWD, "/tmp/nm/one", 0));
    tell("it is a mount", onto(plain, "/tmp/nm/two")), show(AT_FDCWD, "/tmp/nm/two/a/b/file"), tell("and back", onto(plain, "/tmp/nm/one")), close(plain);
    mounts("/tmp/nm");
    int one = tell("a copy", tree(AT_FDCWD, "/tmp/nm/one", CLONE)),
        all = tell("a copy of all", tree(AT_FDCWD, "/tmp/nm/one", CLONE | RECURSIVE | O_CLOEXEC)),
        file = tell("a copy of a file", tree(AT_FDCWD, "/tmp/nm/plain", CLONE));
    show(one, "file"), show(one, "a/file"), show(all, "file");
    tell("a copy of a copy", tree(one, "", CLONE | EMPTY));
    tell("umount the first", umount2("/tmp/nm/one", MNT_DETACH));
    tell("the copy of all", onto(all, "/tmp/nm/two")), tell("the copy", onto(one, "/tmp/nm/one")), tell("the file", onto(file, "/tmp/nm/other"));
    mounts("/tmp/nm");
    show(AT_FDCWD, "/tmp/nm/two/a/b/file"), show(AT_FDCWD, "/tmp/nm/two/a/b/../file"), show(AT_FDCWD, "/tmp/nm/one/a/file"), show(AT_FDCWD, "/tmp/nm/other");
    put(AT_FDCWD, "/tmp/nm/two/file", "changed"), show(AT_FDCWD, "/tmp/nm/one/file");
    close(one), close(all), close(file);
    umount2("/tmp/nm/one", MNT_DETACH), umount2("/tmp/nm/two", MNT_DETACH), umount2("/tmp/nm/other", MNT_DETACH);
    mounts("/tmp/nm");
}

static void flags(void) {
    uint64_t attr[5] = {1, 0, 0, 0, 0};
    mount("none", "/tmp/nm/one", "tmpfs", 0, "mode=755"), put(AT_FDCWD, "/tmp/nm/one/file", "x"), mkdir("/tmp/nm/one/a", 0755),
        mount("none", "/tmp/nm/one/a", "tmpfs", 0, "mode=755");
    tell("setattr unknown flags", attributes(AT_FDCWD, "/tmp/nm/one", 1, 1, 0, 0)),
        tell("too small", syscall(SETATTR, AT_FDCWD, "/tmp/nm/one", 0, attr, 24)),
        tell("too large", syscall(SETATTR, AT_FDCWD, "/tmp/nm/one", 0, attr, 8192));
    tell("longer", syscall(SETATTR, AT_FDCWD, "/tmp/nm/one", 0, attr, 40));
    attr[4] = 1, tell("longer and not zero", syscall(SETATTR, AT_FDCWD, "/tmp/nm/one", 0, attr, 40)),
        tell("setattr bad address", syscall(SETATTR, AT_FDCWD, "/tmp/nm/one", 0, 8, 32));
    tell("write while read only", put(AT_FDCWD, "/tmp/nm/one/file", "y")), tell("below it", put(AT_FDCWD, "/tmp/nm/one/a/file", "y"));
    tell("nothing to do", attributes(AT_FDCWD, "/no/such", 0, 0, 0, 0)),
        tell("unknown attribute", attributes(AT_FDCWD, "/tmp/nm/one", 0, 1 << 22, 0, 0)),
        tell("no mount", attributes(AT_FDCWD, "/tmp/nm/one/file", 0, 1, 0, 0)),
        tell("no such name", attributes(AT_FDCWD, "/tmp/nm/none", 0, 1, 0, 0));
    tell("times without clearing", attributes(AT_FDCWD, "/tmp/nm/one", 0, 0x10, 0, 0)),
        tell("times half cleared", attributes(AT_FDCWD, "/tmp/nm/one", 0, 0, 0x10, 0)),
        tell("two times", attributes(AT_FDCWD, "/tmp/nm/one", 0, 0x30, 0x70, 0));
    tell("no times", attributes(AT_FDCWD, "/tmp/nm/one", 0, 0x10, 0x70, 0)),
        tell("two propagations", attributes(AT_FDCWD, "/tmp/nm/one", 0, 0, 0, MS_PRIVATE | MS_SLAVE)),
        tell("unknown propagation", attributes(AT_FDCWD, "/tmp/nm/one", 0, 0, 0, 1)),
        tell("private", attributes(AT_FDCWD, "/tmp/nm/one", RECURSIVE, 0, 0, MS_PRIVATE));
    tell("all of them", attributes(AT_FDCWD, "/tmp/nm/one", RECURSIVE, 2 | 4 | 8, 1, 0)), mounts("/tmp/nm"),
        tell("write now", put(AT_FDCWD, "/tmp/nm/one/file", "y"));
    struct statvfs status;
    statvfs("/tmp/nm/one", &status), printf("statvfs nosuid %d\n", !!(status.f_flag & ST_NOSUID));
    attr[0] = 0x100000, attr[3] = 999, tell("idmap of no descriptor", syscall(SETATTR, AT_FDCWD, "/tmp/nm/one", 0, attr, 32)), attr[3] = 1ull << 40,
        tell("idmap of no number", syscall(SETATTR, AT_FDCWD, "/tmp/nm/one", 0, attr, 32));
    attr[3] = open("/tmp/nm/plain", O_RDONLY), tell("idmap of a file", syscall(SETATTR, AT_FDCWD, "/tmp/nm/one", 0, attr, 32)), close(attr[3]),
        tell("idmap cleared", attributes(AT_FDCWD, "/tmp/nm/one", 0, 0, 0x100000, 0));
    int fd = tell("fspick", picked(AT_FDCWD, "/tmp/nm/one", 1));
    tell("pick unknown flags", picked(AT_FDCWD, "/tmp/nm/one", 16)), tell("pick no mount", picked(AT_FDCWD, "/tmp/nm", 0)),
        tell("pick nothing", picked(AT_FDCWD, "", 0)), tell("pick no such", picked(AT_FDCWD, "/tmp/nm/none", 0));
    tell("create", set(fd, CREATE, NULL, NULL, 0)), tell("fsmount", fsmounted(fd, 0, 0)), tell("unknown", set(fd, FLAG, "nosuch", NULL, 0)), messages(fd);
    tell("ro", set(fd, FLAG, "ro", NULL, 0)), tell("reconfigure", set(fd, RECONFIGURE, NULL, NULL, 0)),
        tell("write to it", put(AT_FDCWD, "/tmp/nm/one/file", "z"));
    tell("rw", set(fd, FLAG, "rw", NULL, 0)), tell("reconfigure", set(fd, RECONFIGURE, NULL, NULL, 0)),
        tell("write to it", put(AT_FDCWD, "/tmp/nm/one/file", "z"));
    close(fd), mounts("/tmp/nm");
    umount2("/tmp/nm/one", MNT_DETACH);
    fd = tell("one with attributes", new_tmpfs(1 | 2));
    tell("read only", put(fd, "file", "x")), tell("no longer", attributes(fd, "", EMPTY, 0, 1, 0)), tell("write", put(fd, "file", "x")),
        tell("noexec", attributes(fd, "", EMPTY, 8, 0, 0));
    tell("mounted", onto(fd, "/tmp/nm/one")), mounts("/tmp/nm"), close(fd), umount2("/tmp/nm/one", MNT_DETACH);
    fd = opened("tmpfs", 0), set(fd, FLAG, "ro", NULL, 0), set(fd, CREATE, NULL, NULL, 0);
    int made = fsmounted(fd, 0, 0);
    tell("a read-only file system", put(made, "file", "x")), close(made), close(fd);
    mount("none", "/tmp/nm/one", "tmpfs", 0, "mode=755"), mkdir("/tmp/nm/one/a", 0755), mount("none", "/tmp/nm/one/a", "tmpfs", 0, "mode=755");
    fd = tree(AT_FDCWD, "/tmp/nm/one", CLONE | RECURSIVE), tell("a copy of all read only", attributes(fd, "", EMPTY | RECURSIVE, 1, 0, 0)),
        tell("mounted", onto(fd, "/tmp/nm/two")), mounts("/tmp/nm/two");
    close(fd), umount2("/tmp/nm/two", MNT_DETACH), umount2("/tmp/nm/one", MNT_DETACH);
    for (int n = 0; n < 3; n++) {
        static const char *kinds[] = {"proc", "sysfs", "devpts"}, *names[] = {"/tmp/nm/one/self/comm", "/tmp/nm/one/block", "/tmp/nm/one/ptmx"};
        fd = tell(kinds[n], opened(kinds[n], 0)), tell("create", set(fd, CREATE, NULL, NULL, 0)), made = tell("fsmount", fsmounted(fd, 0, 2 | 4 | 8));
        tell("mounted", onto(made, "/tmp/nm/one")), tell(names[n], access(names[n], F_OK)), mounts("/tmp/nm"), umount2("/tmp/nm/one", MNT_DETACH),
            close(made), close(fd);
    }
}

static void passed(void) {
    int pair[2], mount = new_tmpfs(0), context = opened("tmpfs", 0);
    char byte = 0, room[CMSG_SPACE(2 * sizeof(int))] = "";
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    if (fork() == 0) {
        int got[2] = {-1, -1};
        close(mount), close(context), close(pair[0]), recvmsg(pair[1], &message, 0);
        memcpy(got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
        show(got[0], "file"), tell("received", onto(got[0], "/tmp/nm/one")), tell("a context that was received", set(got[1], STRING, "mode", "711", 0));
        fflush(stdout), _exit(0);
    }
    put(mount, "file", "passed on");
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(2 * sizeof(int)),
        memcpy(CMSG_DATA(head), (int[]){mount, context}, 2 * sizeof(int));
    sendmsg(pair[0], &message, 0), close(mount), wait(NULL);
    show(AT_FDCWD, "/tmp/nm/one/file"), umount2("/tmp/nm/one", MNT_DETACH);
    /* What the other one said counts. */
    struct stat status;
    tell("create", set(context, CREATE, NULL, NULL, 0)), mount = fsmounted(context, 0, 0), fstat(mount, &status), printf("mode %o\n", status.st_mode & 07777);
    put(mount, "kept", "over exec");
    if (fork() == 0) {
        char program[64];
        sprintf(program, "cat /proc/self/fd/%d/kept && echo", mount);
        fflush(stdout), execl("/bin/sh", "sh", "-c", program, NULL), _exit(1);
    }
    wait(NULL), close(mount), close(context), close(pair[0]), close(pair[1]);
}

/* Below another root, with another thread's child, and after exec with the descriptor of a context. */
static void in_chroot(void) {
    int before = new_tmpfs(0);
    put(before, "file", "from outside");
    mkdir("/tmp/nm/root", 0755), tell("chroot", chroot("/tmp/nm")), chdir("/");
    tell("mounted", onto(before, "/one")), show(AT_FDCWD, "/one/file"), show(AT_FDCWD, "/one/../plain");
    int fd = opened("tmpfs", 0), copy = tell("a copy", tree(AT_FDCWD, "/one", CLONE));
    tell("create", set(fd, CREATE, NULL, NULL, 0));
    int mount = fsmounted(fd, 0, 0);
    tell("and mounted", onto(mount, "/two")), tell("a file", put(AT_FDCWD, "/two/file", "two")),
        tell("moved", moved(AT_FDCWD, "/two", AT_FDCWD, "/root", 0)), show(AT_FDCWD, "/root/file"), show(AT_FDCWD, "/two/file");
    tell("the copy", onto(copy, "/two")), show(AT_FDCWD, "/two/file");
    tell("read only", attributes(AT_FDCWD, "/root", 0, 1, 0, 0)), tell("write", put(AT_FDCWD, "/root/file", "x")),
        tell("the root", attributes(AT_FDCWD, "/", 0, 1, 0, 0)), tell("fspick", picked(AT_FDCWD, "/one", 0) < 0 ? -1 : 0),
        tell("fspick of the root", picked(AT_FDCWD, "/", 0));
    tell("umount", umount2("/root", MNT_DETACH)), tell("umount", umount2("/two", MNT_DETACH)), tell("umount", umount2("/one", MNT_DETACH));
    rmdir("/root");
}

static void vforked(void) {
    int mount = new_tmpfs(0), status;
    put(mount, "file", "kept");
    pid_t pid = vfork();
    if (pid == 0) close(mount), _exit(0);
    waitpid(pid, &status, 0), show(mount, "file");
    int two = dup(mount);
    close(mount), show(two, "file"), tell("a working directory", fchdir(two)), close(two), show(AT_FDCWD, "file");
    tell("make there", mkdir("d", 0755)), tell("step", chdir("d")), show(AT_FDCWD, "../file"), show(AT_FDCWD, "../../file"), chdir("/");
}

/* Killed at any moment. */
static void dying(void) {
    for (int n = 0; n < 60; n++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            for (;;) {
                int mount = new_tmpfs(0), copy = tree(AT_FDCWD, "/tmp/nm", CLONE | RECURSIVE);
                onto(mount, "/tmp/nm/one"), onto(mount, "/tmp/nm/two"), attributes(AT_FDCWD, "/tmp/nm/two", 0, 2, 0, 0), onto(copy, "/tmp/nm/one");
                umount2("/tmp/nm/one", MNT_DETACH), umount2("/tmp/nm/two", MNT_DETACH), close(mount), close(copy);
            }
        }
        usleep(n * 173 % 5000), kill(pid, SIGKILL), waitpid(pid, NULL, 0);
        while (!umount2("/tmp/nm/one", MNT_DETACH)) {}
        while (!umount2("/tmp/nm/two", MNT_DETACH)) {}
    }
    mounts("/tmp/nm");
    int mount = new_tmpfs(0);
    tell("and again", onto(mount, "/tmp/nm/one")), umount2("/tmp/nm/one", MNT_DETACH), close(mount);
}

static unsigned long long free_memory(void) {
    char line[128];
    unsigned long long kilobytes = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file)) if (sscanf(line, "MemFree: %llu", &kilobytes) == 1) break;
    if (file) fclose(file);
    return kilobytes;
}

static void many(void) {
    static char page[4096];
    unsigned long long before = 0, lost;
    for (int n = 0; n < 1000; n++) {
        int mount = new_tmpfs(0), copy = mount < 0 ? -1 : openat(mount, "f", O_CREAT | O_RDWR, 0600);
        if (copy < 0) return (void)printf("mount %d: %s\n", n, strerror(errno));
        for (int part = 0; part < 16; part++) if (write(copy, page, sizeof page) < 0) printf("write: %s\n", strerror(errno));
        close(copy), close(mount);
        if (n == 100) usleep(200000), before = free_memory();
    }
    /* Also of who is killed: 64 of them at a time. */
    for (int n = 0; n < 5; n++) {
        int ready[2];
        if (pipe(ready)) return;
        pid_t pid = fork();
        if (pid == 0) {
            for (int held = 0; held < 64; held++) if (new_tmpfs(0) < 0 || tree(AT_FDCWD, "/tmp/nm/one", CLONE) < 0) perror("held");
            if (write(ready[1], "x", 1) == 1) pause();
            _exit(1);
        }
        char byte;
        if (read(ready[0], &byte, 1) != 1) perror("read");
        kill(pid, SIGKILL), waitpid(pid, NULL, 0), close(ready[0]), close(ready[1]);
    }
    usleep(500000);
    lost = free_memory();
    printf("memory is %s\n", lost + 16384 < before ? "gone" : "there");
    mounts("/tmp/nm");
}

static int in_child(void (*what)(void), int apart) {
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (apart) tell("unshare", unshare(CLONE_NEWNS)), tell("private", mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
        what();
        fflush(stdout), _exit(0);
    }
    waitpid(pid, &status, 0);
    return status;
}

static int held[2];

static void unprivileged(void) {
    if (setgid(1000) || setuid(1000) || prctl(PR_SET_DUMPABLE, 1)) perror("setuid");
    tell("fsopen", opened("tmpfs", 0)), tell("fsopen with wrong flags", opened("tmpfs", 2)), tell("fsopen nothing", opened(NULL, 0));
    tell("fspick", picked(AT_FDCWD, "/tmp", 0)), tell("fspick wrong flags", picked(AT_FDCWD, "/tmp", 99)), tell("fsmount", fsmounted(held[0], 0, 0)),
        tell("fsmount nothing", fsmounted(-1, 9, 9));
    tell("set what was inherited", set(held[0], STRING, "mode", "755", 0)), tell("create it", set(held[0], CREATE, NULL, NULL, 0));
    tell("move", onto(held[1], "/tmp/nm/one")), tell("move wrong flags", moved(-1, NULL, -1, NULL, 0x200)), show(held[1], "file");
    tell("a copy", tree(AT_FDCWD, "/tmp", CLONE)), tell("a copy of nothing", tree(AT_FDCWD, NULL, CLONE)),
        tell("wrong flags", tree(AT_FDCWD, "/tmp", CLONE | 2)), tell("no copy", tree(AT_FDCWD, "/tmp", 0)),
        tell("closed to him", tree(AT_FDCWD, "/tmp/nm/closed/x", 0));
    tell("setattr", attributes(AT_FDCWD, "/tmp", 0, 1, 0, 0)), tell("setattr wrong flags", attributes(AT_FDCWD, "/tmp", 1, 1, 0, 0)),
        tell("setattr of nothing", attributes(AT_FDCWD, NULL, 0, 0, 0, 0));
    /* With power in a user name space, and none over the mounts of before. */
    tell("a user name space", unshare(CLONE_NEWUSER)), tell("fsopen", opened("tmpfs", 0)), tell("a copy", tree(AT_FDCWD, "/tmp", CLONE)),
        tell("setattr", attributes(AT_FDCWD, "/", 0, 1, 0, 0));
    put(AT_FDCWD, "/proc/self/setgroups", "deny"), tell("a map", put(AT_FDCWD, "/proc/self/uid_map", "0 1000 1")),
        tell("a map of groups", put(AT_FDCWD, "/proc/self/gid_map", "0 1000 1"));
    tell("and a mount name space", unshare(CLONE_NEWNS));
    int mount = tell("a tmpfs", new_tmpfs(0));
    tell("a file in it", put(mount, "file", "a user's")), tell("mounted", onto(mount, "/tmp/nm/one")), show(AT_FDCWD, "/tmp/nm/one/file");
    tell("a copy of all", mount = tree(AT_FDCWD, "/tmp", CLONE | RECURSIVE)), tell("mounted", onto(mount, "/tmp/nm/two")),
        show(AT_FDCWD, "/tmp/nm/two/nm/plain");
    tell("read only", attributes(AT_FDCWD, "/tmp/nm/two", RECURSIVE, 1, 0, 0)), tell("write", put(AT_FDCWD, "/tmp/nm/two/nm/mine", "x"));
}

static void inherited(void) {
    held[0] = opened("tmpfs", 0), held[1] = new_tmpfs(0), put(held[1], "file", "another's");
    in_child(unprivileged, 0);
}

static void all(void) {
    puts("-- contexts"), contexts(), puts("-- lives"), lives(), puts("-- trees"), trees(), puts("-- flags"), flags(), puts("-- passed"), passed(),
        puts("-- many"), many(), puts("-- a chroot"), in_child(in_chroot, 0), puts("-- vfork"), vforked(), puts("-- dying"), dying(),
        puts("-- a user"), inherited();
}

/* In the name space that the system began with. */
static void first(void) {
    int fd = tell("fsopen", opened("tmpfs", 0));
    tell("size", set(fd, STRING, "size", "1m", 0)), tell("mode", set(fd, STRING, "mode", "750", 0)), tell("create", set(fd, CREATE, NULL, NULL, 0));
    int mount = tell("fsmount", fsmounted(fd, 0, 2));
    struct stat status;
    struct statvfs space;
    tell("no such place", onto(mount, "/tmp/nm/none")), tell("on a file", onto(mount, "/tmp/nm/plain") < 0 ? -1 : 0),
        tell("mounted", onto(mount, "/tmp/nm/one"));
    stat("/tmp/nm/one", &status), statvfs("/tmp/nm/one", &space),
        printf("mode %o, %llu bytes, nosuid %d\n", status.st_mode & 07777, (unsigned long long)space.f_blocks * space.f_frsize, !!(space.f_flag & ST_NOSUID));
    put(AT_FDCWD, "/tmp/nm/one/file", "in the first");
    close(mount), close(fd);
    int copy = tell("a copy", tree(AT_FDCWD, "/tmp/nm/one", CLONE));
    show(copy, "file"), tell("mounted", onto(copy, "/tmp/nm/two")), show(AT_FDCWD, "/tmp/nm/two/file"), close(copy);
    tell("umount the copy", umount("/tmp/nm/two"));
    fd = tell("fspick", picked(AT_FDCWD, "/tmp/nm/one", 0)), tell("pick no mount", picked(AT_FDCWD, "/tmp/nm", 0)),
        tell("reconfigure to nothing", set(fd, RECONFIGURE, NULL, NULL, 0)), close(fd);
    tell("no plain folder", attributes(AT_FDCWD, "/tmp/nm", 0, 1, 0, 0)), tell("as it is", attributes(AT_FDCWD, "/tmp/nm/one", 0, 2, 1, 0));
    tell("umount", umount("/tmp/nm/one"));
    mounts("/tmp/nm");
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    umask(022);
    mkdir("/tmp/nm", 0755), mkdir("/tmp/nm/one", 0755), mkdir("/tmp/nm/two", 0755), mkdir("/tmp/nm/closed", 0700);
    put(AT_FDCWD, "/tmp/nm/plain", "plain"), put(AT_FDCWD, "/tmp/nm/other", "other");
    if (symlink("one", "/tmp/nm/link") || symlink("loop", "/tmp/nm/loop")) perror("symlink");
    printf("ended with %d\n", in_child(all, 1));
    puts("-- the first name space");
    printf("ended with %d\n", in_child(first, 0));
    mounts("/tmp/nm");
    return 0;
}
