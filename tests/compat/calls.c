/* Each system call of Linux 6.1 on x86-64 with each argument over its boundary values, and each two arguments that are both wrong; as root and as user 1000.
 * A line for each: user, call, arguments, result. `./cairn compat calls` runs this on both systems and compares the lines. Usage: calls [PART-OF-NAME].
 * Each case is a process of its own, with descriptors and files of its own, and has a second. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, VALUES = 64, LIMIT = 1 };

/* Memory of all cases: readable and writable pages with nothing behind them, a page that can be read only, one that nobody can touch. */
#define MEMORY ((char *)0x500000000000)
#define READ_ONLY ((char *)0x500010000000)
#define NO_ACCESS ((char *)0x500020000000)
#define UNMAPPED ((char *)0x500030000000)
enum { PAGES = 8 };

/* What a case leaves for the process that started it. */
static volatile struct { long result; int done; } *told;

/* A value of an argument. `bad`: it is expected to be refused, and is tried together with bad ones of other arguments. */
struct value { const char *label; long (*make)(long); long word; int bad; };
struct kind { const char *name; struct value values[VALUES]; };

/* --- what values are made of --- */
static char *bump = MEMORY;
static void *room(size_t size) {
    char *at = bump;
    bump += (size + 63) & ~63ul;
    return at;
}
static long word(long w) { return w; }
static long buffer(long offset) { return (long)(MEMORY + (PAGES / 2) * PAGE + offset); }
static long edge(long before) { return (long)(MEMORY + PAGES * PAGE - before); }
static long filled(long byte) { return (long)memset(room(512), (int)byte, 512); }
static long two(long first, long second) {
    long *w = memset(room(64), 0, 64);
    w[0] = first;
    w[1] = second;
    return (long)w;
}
static long pair_first(long w) { return two(w, 0); }
static long pair_second(long w) { return two(0, w); }
static long pair_third(long x) { long *w = (long *)two(0, 0); w[2] = x; return (long)w; }
static long pair_fourth(long x) { long *w = (long *)two(0, 0); w[3] = x; return (long)w; }
static long self(long w) { return w + getpid(); }
static long parent(long w) { return w + getppid(); }
static long cpu_clock(long w) { return (long)(int)((unsigned)~getpid() << 3 | (unsigned)w); }
static long no_cpu_clock(long w) { return (long)(int)((unsigned)~0x3ffffff << 3 | (unsigned)w); }

static int made(int fd) {
    /* Far from those that calls make. */
    int high = fcntl(fd, F_DUPFD, 100);
    close(fd);
    return high;
}
static long descriptor(long what) {
    int two[2], fd = -1;
    static int serial;
    char name[32];
    struct epoll_event none = {.events = EPOLLIN};
    sigset_t set;
    switch (what) {
    case 'r': case 'o': case 'w': case 'a': case 'P': case 'X':
        snprintf(name, sizeof name, "f%d", ++serial);
        fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
        write(fd, "0123456789abcdef", 16);
        if (what == 'X') fchmod(fd, 0755);
        close(fd);
        fd = open(name, what == 'r' ? O_RDWR : what == 'w' ? O_WRONLY : what == 'a' ? O_RDWR | O_APPEND : what == 'P' ? O_PATH : O_RDONLY);
        unlink(name);
        break;
    case 'd': fd = open("d", O_RDONLY | O_DIRECTORY); break;
    case 'D': fd = open("d", O_PATH | O_DIRECTORY); break;
    case 'p': pipe2(two, O_NONBLOCK); fd = two[0]; write(two[1], "0123456789abcdef", 16); break;
    case 'q': pipe2(two, O_NONBLOCK); fd = two[1]; break;
    case 'Q': pipe2(two, O_NONBLOCK); fd = two[1]; close(two[0]); break;
    case 's': socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, two); fd = two[0]; break;
    case 'g': fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0); break;
    case 'u': fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0); break;
    case 'l': {
        struct sockaddr_un any = {.sun_family = AF_UNIX};
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        bind(fd, (struct sockaddr *)&any, sizeof any.sun_family);
        listen(fd, 4);
        break;
    }
    case 'e': fd = eventfd(1, EFD_NONBLOCK); break;
    case 'E': fd = epoll_create1(0); pipe2(two, 0); epoll_ctl(fd, EPOLL_CTL_ADD, two[0], &none); break;
    case 't': fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK); break;
    case 'S': sigemptyset(&set); sigaddset(&set, SIGUSR2); fd = signalfd(-1, &set, SFD_NONBLOCK); break;
    case 'm': fd = memfd_create("calls", MFD_ALLOW_SEALING); ftruncate(fd, 16); break;
    case 'n': fd = open("/dev/null", O_RDWR); break;
    case 'z': fd = open("/dev/zero", O_RDWR); break;
    case 'T': fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK); break;
    case 'i': fd = (int)syscall(SYS_inotify_init1, O_NONBLOCK); break;
    case 'I': fd = (int)syscall(SYS_pidfd_open, getpid(), 0); break;
    case 'c': return 99;
    }
    return fd < 0 ? 98 : made(fd);
}

static const char *const names[] = {"new/x", "newer/x", "file", "program", "link", "dangling", "loop", "fifo", "new", "empty-folder", "full/x", "full", "socket", "newer"};
static long path(long what) {
    const char *name = NULL;
    int fd;
    switch (what) {
    case 'f': name = "file"; fd = open(name, O_RDWR | O_CREAT, 0644); write(fd, "0123456789abcdef", 16); close(fd); break;
    case 'x': name = "program"; fd = open(name, O_RDWR | O_CREAT, 0755); write(fd, "#!/none\n", 8); close(fd); break;
    case 'd': mkdir(name = "empty-folder", 0755); break;
    case 'D': mkdir("empty-folder", 0755); name = "empty-folder/"; break;
    case '.': mkdir("empty-folder", 0755); name = "empty-folder/."; break;
    case ':': mkdir("full", 0755); close(open("full/x", O_CREAT | O_RDWR, 0644)); name = "full/x/.."; break;
    case 'F': mkdir(name = "full", 0755); close(open("full/x", O_CREAT | O_RDWR, 0644)); break;
    case 'l': path('f'); symlink("file", name = "link"); break;
    case 'L': symlink("none", name = "dangling"); break;
    case 'o': symlink("loop", name = "loop"); break;
    case 'O': symlink("loop", "loop"); name = "loop/x"; break;
    case 'p': mkfifo(name = "fifo", 0644); break;
    case 's': {
        struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "socket"};
        bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&at, sizeof at);
        name = "socket";
        break;
    }
    case 'n': name = "new"; break;
    case 'N': name = "new/"; break;
    case '0': name = ""; break;
    case '/': path('f'); name = "file/"; break;
    case 'y': path('f'); name = "file/x"; break;
    case '1': name = "none"; break;
    case '2': name = "none/x"; break;
    case 'S': name = "../root/secret/x"; break;
    case 'R': name = "../root/private"; break;
    case 'r': name = "../root/readable"; break;
    case '_': name = "../root/new"; break;
    case 'z': name = "/dev/null"; break;
    case 'Z': name = "/"; break;
    case 'P': name = "/proc/self/status"; break;
    case 'b': { char *c = room(300); memset(c, 'a', 256); c[256] = 0; return (long)c; }
    case 'B': { char *c = room(5000); for (int i = 0; i < 4500; i++) c[i] = "./"[i & 1]; c[4500] = 0; return (long)c; }
    case 'e': { char *c = (char *)edge(3); memcpy(c, "abc", 3); return (long)c; }
    }
    return (long)strcpy(room(64), name);
}
static long timer(long how) {
    int id = -1;
    struct sigevent quiet = {.sigev_notify = SIGEV_NONE};
    syscall(SYS_timer_create, how, &quiet, &id);
    return id;
}
static long address(long how) {
    struct sockaddr_un *at = memset(room(128), 0, 128);
    at->sun_family = how == 'f' ? 77 : AF_UNIX;
    switch (how) {
    case 'n': strcpy(at->sun_path, "new"); break;
    case 's': path('s'); strcpy(at->sun_path, "socket"); break;
    case 'x': path('f'); strcpy(at->sun_path, "file"); break;
    case '1': strcpy(at->sun_path, "none"); break;
    case 'a': strcpy(at->sun_path + 1, "abstract-none"); break;
    }
    return (long)at;
}
static long message(long how) {
    struct msghdr *m = memset(room(sizeof *m), 0, sizeof *m);
    struct iovec *v = room(2 * sizeof *v);
    v[0] = (struct iovec){(void *)buffer(0), 4};
    v[1] = (struct iovec){(void *)buffer(64), 4};
    m->msg_iov = v;
    m->msg_iovlen = 2;
    switch (how) {
    case 'b': v[1].iov_base = (void *)1; break;
    case 'B': v[0].iov_base = (void *)1; break;
    case 'v': m->msg_iov = (void *)1; break;
    case 'n': m->msg_iovlen = 1025; break;
    case 'N': m->msg_iovlen = (size_t)-1; break;
    case 'l': v[0].iov_len = (size_t)-1; break;
    case 'a': m->msg_name = (void *)1; m->msg_namelen = 16; break;
    case 'A': m->msg_name = (void *)buffer(0); m->msg_namelen = (unsigned)-1; break;
    case 'c': m->msg_control = (void *)1; m->msg_controllen = 32; break;
    case 'C': m->msg_control = memset(room(64), 0, 64); m->msg_controllen = 8; break;
    case '0': m->msg_iovlen = 0; break;
    }
    return (long)m;
}
static long vector(long how) { return (long)((struct msghdr *)message(how))->msg_iov; }
static long in_int(long v) { int *w = room(64); memset(w, 0, 64); *w = (int)v; return (long)w; }
static long in_long(long v) { return two(v, 0); }
static long caps(long version) { return two(version, 0); }
static long pointers(long how) {
    char **p = room(64);
    p[0] = how == 'b' ? (char *)1 : strcpy(room(16), "x");
    p[1] = NULL;
    return (long)p;
}
static long polled(long how) { int *p = room(64); memset(p, 0, 64); p[0] = (int)descriptor(how); p[1] = 1; return (long)p; }
static long event(long bits) { struct epoll_event *e = memset(room(64), 0, 64); e->events = (uint32_t)bits; return (long)e; }
static long how2(long w) { long *h = memset(room(64), 0, 64); h[0] = w; return (long)h; }
static long how2_mode(long w) { long *h = memset(room(64), 0, 64); h[1] = w; return (long)h; }
static long how2_resolve(long w) { long *h = memset(room(64), 0, 64); h[2] = w; return (long)h; }
static long sched(long how) {
    /* struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period. */
    uint32_t *a = memset(room(128), 0, 128);
    a[0] = 48;
    switch (how) {
    case 's': a[0] = 47; break;
    case 'S': a[0] = 5000; break;
    case '0': a[0] = 0; break;
    case 'p': a[1] = 77; break;
    case 'f': a[1] = 1; a[5] = 1; break;
    case 'F': a[1] = 1; a[5] = 100; break;
    case 'z': a[1] = 1; break;
    case 'n': a[4] = (uint32_t)-5; break;
    case 'N': a[4] = 5; break;
    case 'x': a[2] = 0x80; break;
    case 'd': a[1] = 6; break;
    case 't': a[5] = 3; break;
    }
    return (long)a;
}
static long timex(long modes) { int *t = memset(room(256), 0, 256); t[0] = (int)modes; return (long)t; }
static long notify(long how) {
    struct sigevent *e = memset(room(sizeof *e), 0, sizeof *e);
    e->sigev_signo = 10;
    switch (how) {
    case 'n': e->sigev_notify = SIGEV_NONE; break;
    case 'N': e->sigev_notify = SIGEV_NONE; e->sigev_signo = 99; break;
    case 's': e->sigev_signo = 65; break;
    case '0': e->sigev_signo = 0; break;
    case 'h': e->sigev_notify = 77; break;
    case 't': e->sigev_notify = 4; ((int *)e)[4] = (int)syscall(SYS_gettid); break;
    case 'T': e->sigev_notify = 4; ((int *)e)[4] = 1; break;
    }
    return (long)e;
}
static long lock_of(long how) {
    struct flock *l = memset(room(sizeof *l), 0, sizeof *l);
    l->l_type = F_RDLCK;
    switch (how) {
    case 'w': l->l_type = F_WRLCK; break;
    case 'u': l->l_type = F_UNLCK; break;
    case 't': l->l_type = 77; break;
    case 'h': l->l_whence = 77; break;
    case 'n': l->l_start = -5; break;
    case 'N': l->l_len = -5; break;
    case 'p': l->l_pid = 5; break;
    }
    return (long)l;
}
static long handle(long bytes) { unsigned *h = memset(room(256), 0, 256); h[0] = (unsigned)bytes; return (long)h; }
static long waiters(long how) {
    struct { uint64_t val, uaddr; uint32_t flags, reserved; } *w = memset(room(64), 0, 64);
    w->uaddr = (uint64_t)in_int(7);
    w->flags = 2;
    switch (how) {
    case 'f': w->flags = 0x40; break;
    case 'r': w->reserved = 1; break;
    case 'u': w->uaddr++; break;
    case 'b': w->uaddr = 8; break;
    case '8': w->flags = 1; break;
    }
    return (long)w;
}

#define W(label, value) {label, word, value, 0}
#define BAD(label, value) {label, word, value, 1}
#define POINTERS_WRONG BAD("null", 0), BAD("bad", 1), BAD("kernel", (long)0xffff800000001000), BAD("unmapped", (long)UNMAPPED)
#define POINTERS_OPTIONAL W("null", 0), BAD("bad", 1), BAD("kernel", (long)0xffff800000001000)
#define BIT(n) W("1<<" #n, 1l << (n))
#define BITS BIT(0), BIT(1), BIT(2), BIT(3), BIT(4), BIT(5), BIT(6), BIT(7), BIT(8), BIT(9), BIT(10), BIT(11), BIT(12), BIT(13), BIT(14), BIT(15), BIT(16), BIT(17), BIT(18), BIT(19), BIT(20), \
    BIT(21), BIT(22), BIT(23), BIT(24), BIT(25), BIT(26), BIT(27), BIT(28), BIT(29), BIT(30), BAD("1<<31", 0x80000000l)
#define SMALL W("0", 0), W("1", 1), W("2", 2), W("3", 3), W("4", 4), W("5", 5), W("6", 6), W("7", 7), W("8", 8), W("9", 9), W("10", 10), W("11", 11), W("12", 12), W("13", 13), W("14", 14), W("15", 15), W("16", 16)

static const struct kind kinds[] = {
    {"fd", {{"rw", descriptor, 'r', 0}, {"ro", descriptor, 'o', 0}, {"wo", descriptor, 'w', 0}, {"append", descriptor, 'a', 0}, {"path", descriptor, 'P', 0}, {"dir", descriptor, 'd', 0},
        {"dirpath", descriptor, 'D', 0}, {"piper", descriptor, 'p', 0}, {"pipew", descriptor, 'q', 0}, {"pipebroken", descriptor, 'Q', 0}, {"sock", descriptor, 's', 0}, {"dgram", descriptor, 'g', 0},
        {"unbound", descriptor, 'u', 0}, {"listen", descriptor, 'l', 0}, {"event", descriptor, 'e', 0}, {"epoll", descriptor, 'E', 0}, {"timer", descriptor, 't', 0}, {"signals", descriptor, 'S', 0},
        {"memfd", descriptor, 'm', 0}, {"devnull", descriptor, 'n', 0}, {"zero", descriptor, 'z', 0}, {"ptmx", descriptor, 'T', 0}, {"inotify", descriptor, 'i', 0}, {"pidfd", descriptor, 'I', 0}, {"program", descriptor, 'X', 0},
        {"closed", descriptor, 'c', 1}, BAD("-1", -1), W("huge", 0x7fffffff)}},
    {"dfd", {W("cwd", AT_FDCWD), {"dir", descriptor, 'd', 0}, {"dirpath", descriptor, 'D', 0}, {"file", descriptor, 'r', 1}, {"piper", descriptor, 'p', 0}, {"path", descriptor, 'P', 0}, {"closed", descriptor, 'c', 1}, W("-1", -1)}},
    {"path", {{"file", path, 'f', 0}, {"program", path, 'x', 0}, {"dir", path, 'd', 0}, {"dir/", path, 'D', 0}, {"dir/.", path, '.', 0}, {"full", path, 'F', 0}, {"full/x/..", path, ':', 0}, {"link", path, 'l', 0},
        {"dangling", path, 'L', 0}, {"loop", path, 'o', 1}, {"loop/x", path, 'O', 0}, {"fifo", path, 'p', 0}, {"socket", path, 's', 0}, {"new", path, 'n', 0}, {"new/", path, 'N', 0}, {"empty", path, '0', 1},
        {"file/", path, '/', 0}, {"file/x", path, 'y', 1}, {"none", path, '1', 1}, {"none/x", path, '2', 0}, {"secret/x", path, 'S', 1}, {"private", path, 'R', 0}, {"readable", path, 'r', 0}, {"root/new", path, '_', 0},
        {"devnull", path, 'z', 0}, {"/", path, 'Z', 0}, {"proc", path, 'P', 0}, {"longname", path, 'b', 1}, {"toolong", path, 'B', 0}, {"edge", path, 'e', 0}, POINTERS_WRONG}},
    {"string", {{"abc", path, 'n', 0}, {"empty", path, '0', 0}, {"longname", path, 'b', 0}, {"edge", path, 'e', 0}, POINTERS_WRONG}},
    {"buf", {{"buf", buffer, 0, 0}, {"odd", buffer, 1, 0}, {"edge", edge, 1, 0}, {"readonly", word, (long)READ_ONLY, 0}, {"noaccess", word, (long)NO_ACCESS, 0}, POINTERS_WRONG, W("top", -1)}},
    {"out", {{"buf", buffer, 0, 0}, {"odd", buffer, 1, 0}, {"edge", edge, 1, 0}, {"readonly", word, (long)READ_ONLY, 0}, POINTERS_OPTIONAL}},
    {"in", {{"zeros", filled, 0, 0}, {"ones", filled, 255, 0}, {"edge", edge, 1, 0}, POINTERS_WRONG}},
    {"in?", {{"zeros", filled, 0, 0}, {"ones", filled, 255, 0}, POINTERS_OPTIONAL}},
    {"inint", {{"0", in_int, 0, 0}, {"1", in_int, 1, 0}, {"-1", in_int, -1, 0}, POINTERS_WRONG}},
    {"inlong", {{"0", in_long, 0, 0}, {"5", in_long, 5, 0}, {"-1", in_long, -1, 0}, POINTERS_OPTIONAL}},
    {"len", {W("16", 16), W("0", 0), W("1", 1), W("4", 4), W("7", 7), W("8", 8), W("4096", 4096), W("-1", -1), BAD("max", 0x7fffffffffffffff), W("int", 0x7fffffff), W("uint", 0xffffffff)}},
    {"int", {W("0", 0), W("1", 1), W("2", 2), W("5", 5), BAD("-1", -1), W("max", 0x7fffffff), W("min", (long)(int)0x80000000), W("high", 1l << 32)}},
    {"cmd", {SMALL, W("17", 17), W("18", 18), W("19", 19), W("20", 20), W("22", 22), W("24", 24), W("32", 32), W("36", 36), W("64", 64), W("100", 100), W("256", 256), BAD("-1", -1), W("1024", 1024), W("big", 0x40000000)}},
    {"bits", {W("0", 0), BITS, W("1<<32", 1l << 32), W("all", -1)}},
    {"off", {W("0", 0), W("1", 1), W("16", 16), W("4096", 4096), BAD("-1", -1), W("-4096", -4096), W("max", 0x7fffffffffffffff), W("big", 1l << 60)}},
    {"pid", {{"self", self, 0, 0}, W("0", 0), {"parent", parent, 0, 0}, BAD("none", 0x3ffffff0), BAD("-1", -1), W("min", (long)(int)0x80000000)}},
    {"tpid", {{"self", self, 0, 0}, BAD("none", 0x3ffffff0), W("0", 0), W("-2", -0x3ffffff0)}},
    {"sig", {W("0", 0), W("17", 17), BAD("65", 65), BAD("-1", -1), W("64", 64), W("10", 10), W("18", 18)}},
    {"anysig", {W("10", 10), W("0", 0), W("9", 9), W("19", 19), W("17", 17), W("64", 64), BAD("65", 65), BAD("-1", -1)}},
    {"sets", {W("8", 8), W("0", 0), W("4", 4), BAD("16", 16), BAD("-1", -1)}},
    {"ts", {{"0", pair_first, 0, 0}, {"1ns", pair_second, 1, 0}, {"ns<0", pair_second, -1, 1}, {"ns=1e9", pair_second, 1000000000, 0}, {"s<0", pair_first, -1, 1}, {"s=min", pair_first, (long)1 << 63, 0}, POINTERS_WRONG}},
    {"ts?", {{"0", pair_first, 0, 0}, {"1ns", pair_second, 1, 0}, {"ns<0", pair_second, -1, 1}, {"ns=1e9", pair_second, 1000000000, 0}, {"s<0", pair_first, -1, 1}, BAD("bad", 1), BAD("kernel", (long)0xffff800000001000)}},
    {"tv?", {{"0", pair_first, 0, 0}, {"us<0", pair_second, -1, 1}, {"us=1e6", pair_second, 1000000, 0}, {"s<0", pair_first, -1, 1}, BAD("bad", 1), BAD("kernel", (long)0xffff800000001000)}},
    {"its", {{"0", pair_first, 0, 0}, {"int<0", pair_second, -1, 1}, {"int=1e9", pair_second, 1000000000, 0}, {"ints<0", pair_first, -1, 0}, {"val<0", pair_fourth, -1, 0}, {"val=1e9", pair_fourth, 1000000000, 0}, {"vals<0", pair_third, -1, 0},
        {"1ks", pair_third, 1000, 0}, POINTERS_WRONG}},
    {"itv?", {{"0", pair_first, 0, 0}, {"int<0", pair_second, -1, 1}, {"int=1e6", pair_second, 1000000, 0}, {"val<0", pair_fourth, -1, 0}, {"val=1e6", pair_fourth, 1000000, 0}, {"vals<0", pair_third, -1, 0}, {"1ks", pair_third, 1000, 0}, POINTERS_OPTIONAL}},
    {"times2?", {{"0", pair_first, 0, 0}, {"now", pair_second, 0x3fffffff, 0}, {"omit", pair_second, 0x3ffffffe, 0}, {"ns<0", pair_second, -1, 1}, {"ns=1e9", pair_second, 1000000000, 0}, {"m<0", pair_fourth, -1, 0}, POINTERS_OPTIONAL}},
    {"clock", {SMALL, BAD("-1", -1), {"process", cpu_clock, 2, 0}, {"thread", cpu_clock, 6, 0}, {"kind3", cpu_clock, 3, 0}, {"noprocess", no_cpu_clock, 2, 0}, W("99", 99)}},
    {"timer", {{"real", timer, 0, 0}, {"mono", timer, 1, 0}, BAD("none", 77), BAD("-1", -1)}},
    {"uid", {W("1000", 1000), W("0", 0), W("-1", -1), W("2000", 2000), W("max", 0xfffffffe)}},
    {"mode", {W("0644", 0644), W("07777", 07777), W("big", 0200644), W("dir", 0040755), W("fifo", 0010644), W("sock", 0140644), W("link", 0120644), W("chr", 0020644), W("blk", 0060644), W("bad", 0070644)}},
    {"mem", {{"page", word, (long)MEMORY + 2 * PAGE, 0}, {"odd", word, (long)MEMORY + 2 * PAGE + 1, 1}, {"last", word, (long)MEMORY + 7 * PAGE, 0}, {"readonly", word, (long)READ_ONLY, 0}, {"none", word, (long)UNMAPPED, 1}, W("0", 0),
        W("kernel", (long)0xffff800000001000), W("top", -4096)}},
    {"memlen", {W("4096", 4096), W("0", 0), W("1", 1), W("8192", 8192), W("many", 1 << 20), W("-1", -1), BAD("-4096", -4096), W("max", 0x7ffffffffffff000)}},
    {"prot", {W("1", 1), W("0", 0), W("2", 2), W("3", 3), W("4", 4), W("5", 5), W("7", 7), W("8", 8), W("16", 16), BAD("grows", 0x03000000), W("-1", -1)}},
    {"mapflags", {W("private-anon", 0x22), W("0", 0), W("shared", 1), W("private", 2), W("validate", 3), W("4", 4), W("shared-anon", 0x21), W("fixed", 0x32), W("noreplace", 0x100022), W("growsdown", 0x122), W("locked", 0x2022), W("populate", 0x8022),
        W("hugetlb", 0x40022), W("sync", 0x80003), W("unknown", 0x40000023), W("stack", 0x20022), W("32bit", 0x62)}},
    {"sa", {{"none", address, '1', 0}, {"new", address, 'n', 0}, {"socket", address, 's', 0}, {"file", address, 'x', 0}, {"abstract", address, 'a', 0}, {"family", address, 'f', 1}, POINTERS_WRONG}},
    {"salen", {W("110", 110), W("0", 0), W("1", 1), W("2", 2), W("3", 3), W("111", 111), BAD("-1", -1), W("big", 4096)}},
    {"plen", {{"110", in_int, 110, 0}, {"0", in_int, 0, 0}, {"2", in_int, 2, 0}, {"-1", in_int, -1, 1}, POINTERS_WRONG}},
    {"msg", {{"good", message, 0, 0}, {"noiov", message, '0', 0}, {"iov2bad", message, 'b', 0}, {"iov1bad", message, 'B', 1}, {"iovbad", message, 'v', 0}, {"iov1025", message, 'n', 0}, {"iov-1", message, 'N', 0}, {"len-1", message, 'l', 0},
        {"namebad", message, 'a', 0}, {"namelen-1", message, 'A', 0}, {"ctlbad", message, 'c', 0}, {"ctlshort", message, 'C', 0}, POINTERS_WRONG}},
    {"iov", {{"good", vector, 0, 0}, {"2bad", vector, 'b', 0}, {"1bad", vector, 'B', 1}, {"len-1", vector, 'l', 0}, POINTERS_WRONG}},
    {"iovs", {W("2", 2), W("0", 0), W("1", 1), BAD("1025", 1025), BAD("-1", -1), W("int", 0x7fffffff)}},
    {"caps", {{"v3", caps, 0x20080522, 0}, {"v2", caps, 0x20071026, 0}, {"v1", caps, 0x19980330, 0}, {"v0", caps, 0, 1}, POINTERS_WRONG}},
    {"argv", {{"x", pointers, 0, 0}, {"badstring", pointers, 'b', 1}, POINTERS_OPTIONAL}},
    {"polled", {{"piper", polled, 'p', 0}, {"closed", polled, 'c', 0}, {"file", polled, 'r', 0}, {"event", polled, 'e', 0}, {"path", polled, 'P', 0}, POINTERS_WRONG}},
    {"event", {{"in", event, 1, 0}, {"exclusive", event, 1l << 28 | 1, 0}, {"exclusive-oneshot", event, 3l << 28 | 1 | 1l << 30, 0}, {"0", event, 0, 0}, {"all", event, -1, 0}, POINTERS_WRONG}},
    {"how", {{"0", how2, 0, 0}, {"rdwr", how2, 2, 0}, {"creat", how2, 0100, 0}, {"flag", how2, 1l << 40, 1}, {"flag31", how2, 1l << 31, 0}, {"mode", how2_mode, 0644, 0}, {"resolve1", how2_resolve, 1, 0}, {"resolve2", how2_resolve, 2, 0},
        {"resolve4", how2_resolve, 4, 0}, {"resolve8", how2_resolve, 8, 0}, {"resolve16", how2_resolve, 16, 0}, {"resolve32", how2_resolve, 32, 0}, {"resolve64", how2_resolve, 64, 0}, {"tmpfile", how2, 020200000, 0}, {"path-rdwr", how2, 010000002, 0},
        {"path-creat", how2, 010000100, 0}, POINTERS_WRONG}},
    {"howlen", {W("24", 24), W("0", 0), W("23", 23), W("32", 32), W("4096", 4096), BAD("4097", 4097), W("-1", -1)}},
    {"attr", {{"good", sched, 0, 0}, {"small", sched, 's', 0}, {"large", sched, 'S', 0}, {"size0", sched, '0', 0}, {"policy", sched, 'p', 0}, {"fifo", sched, 'f', 0}, {"fifo100", sched, 'F', 0}, {"fifo0", sched, 'z', 0}, {"nice-5", sched, 'n', 0},
        {"nice5", sched, 'N', 0}, {"flags", sched, 'x', 0}, {"deadline0", sched, 'd', 0}, {"other3", sched, 't', 0}, POINTERS_WRONG}},
    {"attrlen", {W("48", 48), W("0", 0), W("47", 47), W("56", 56), BAD("4097", 4097), BAD("-1", -1)}},
    {"timex", {{"0", timex, 0, 0}, {"offset", timex, 1, 0}, {"frequency", timex, 2, 0}, {"maxerror", timex, 4, 0}, {"tick", timex, 0x4000, 0}, {"status", timex, 0x10, 0}, {"nano", timex, 0x2000, 0}, {"singleshot", timex, 0x8001, 0}, {"ssread", timex, 0xa001, 0},
        {"ss-only", timex, 0x8000, 0}, {"all", timex, -1, 0}, POINTERS_WRONG}},
    {"sev", {{"signal", notify, 0, 0}, {"none", notify, 'n', 0}, {"none99", notify, 'N', 0}, {"sig65", notify, 's', 0}, {"sig0", notify, '0', 0}, {"how", notify, 'h', 0}, {"thread", notify, 't', 0}, {"thread1", notify, 'T', 0}, POINTERS_OPTIONAL}},
    {"lock", {{"read", lock_of, 0, 0}, {"write", lock_of, 'w', 0}, {"unlock", lock_of, 'u', 0}, {"type", lock_of, 't', 0}, {"whence", lock_of, 'h', 0}, {"start<0", lock_of, 'n', 0}, {"len<0", lock_of, 'N', 0}, {"pid", lock_of, 'p', 0}, POINTERS_WRONG}},
    {"handle", {{"128", handle, 128, 0}, {"0", handle, 0, 0}, {"129", handle, 129, 1}, {"-1", handle, -1, 1}, POINTERS_WRONG}},
    {"waiters", {{"good", waiters, 0, 0}, {"flags", waiters, 'f', 0}, {"reserved", waiters, 'r', 0}, {"odd", waiters, 'u', 0}, {"addr", waiters, 'b', 0}, {"size1", waiters, '8', 0}, POINTERS_WRONG}},
    {"lockcmd", {W("5", 5), W("6", 6), W("7", 7), W("36", 36), W("37", 37), W("38", 38), BAD("39", 39)}},
    {"ownercmd", {W("8", 8), W("15", 15), W("10", 10), W("16", 16), W("1026", 1026), W("1024", 1024), W("1033", 1033), W("1031", 1031), W("1036", 1036), W("1038", 1038)}},
    {"prctl", {SMALL, W("21", 21), W("22", 22), W("23", 23), W("24", 24), W("25", 25), W("26", 26), W("27", 27), W("28", 28), W("29", 29), W("30", 30), W("31", 31), W("32", 32), W("33", 33), W("34", 34), W("35", 35), W("36", 36), W("37", 37), W("38", 38), W("39", 39),
        W("40", 40), W("41", 41), W("42", 42), W("43", 43), W("47", 47), W("52", 52), W("53", 53), W("59", 59), W("62", 62), W("65", 65), W("99", 99), W("vma", 0x53564d41), W("ptracer", 0x59616d61), BAD("-1", -1)}},
    {"ioctl", {W("tcgets", 0x5401), W("winsz", 0x5413), W("fionread", 0x541b), W("fionbio", 0x5421), W("fioasync", 0x5452), W("fioclex", 0x5451), W("fionclex", 0x5450), W("gpgrp", 0x540f), W("spgrp", 0x5410), W("sctty", 0x540e), W("notty", 0x5422), W("blksize", 0x1260),
        W("figetbsz", 2), W("fibmap", 1), W("getflags", (long)0x80086601), W("ptn", (long)0x80045430), W("unlck", 0x40045431), W("outq", 0x5411), W("tcsbrk", 0x5409), W("tcflsh", 0x540b), W("fiogetown", 0x8903), BAD("none", 0x12345678), W("0", 0), W("-1", -1)}},
    {"madvice", {SMALL, W("17", 17), W("18", 18), W("19", 19), W("20", 20), W("21", 21), W("22", 22), W("23", 23), W("24", 24), W("25", 25), W("26", 26), BAD("-1", -1), W("100", 100), W("101", 101)}},
    {"futexop", {W("wake", 1), W("wait", 0), W("fd", 2), W("requeue", 3), W("cmp-requeue", 4), W("wake-op", 5), W("lock-pi", 6), W("unlock-pi", 7), W("trylock-pi", 8), W("wait-bitset", 9), W("wake-bitset", 10), W("lock-pi2", 13), W("14", 14), W("wake-private", 129),
        W("wait-private", 128), W("wake-real", 257), W("wait-real", 256), W("lock-pi-real", 262), BAD("-1", -1)}},
    {"futexword", {{"0", in_int, 0, 0}, {"7", in_int, 7, 0}, {"odd", buffer, 1, 1}, POINTERS_WRONG}},
    {"seek", {W("0", 0), W("1", 1), W("2", 2), W("3", 3), W("4", 4), BAD("5", 5), BAD("-1", -1)}},
    {"open", {W("0", 0), W("1", 1), W("2", 2), W("3", 3), W("creat", 0102), W("excl", 0302), W("trunc", 01002), W("append", 02001), W("dir", 0200000), W("creat-dir", 0200102), W("nofollow", 0400000), W("path", 010000000), W("path-nofollow", 010400000), W("tmpfile", 020200002),
        W("tmpfile-ro", 020200000), W("tmpfile-nodir", 020000002), W("noatime", 01000000), W("direct", 040000), W("unknown", 040000000), W("nonblock", 04002), W("creat-excl-nofollow", 0400302), BAD("all", -1)}},
    {"openmode", {W("0600", 0600)}},
    {"at", {W("0", 0), W("follow", 0x400), W("nofollow", 0x100), W("removedir", 0x200), W("empty", 0x1000), W("noauto", 0x800), W("1", 1), BAD("0x40", 0x40), W("all", -1), W("sync", 0x2000), W("sync6", 0x6000)}},
    {"scm", {W("0", 0), W("1", 1), W("2", 2), W("3", 3), W("5", 5), W("6", 6), W("batch-rr", 3 | 0x40000000), W("7", 7), BAD("-1", -1)}},
    {"param", {{"0", in_int, 0, 0}, {"1", in_int, 1, 0}, {"99", in_int, 99, 0}, {"100", in_int, 100, 1}, {"-1", in_int, -1, 0}, POINTERS_WRONG}},
    {"idtype", {W("0", 0), W("1", 1), W("2", 2), W("3", 3), BAD("4", 4), BAD("-1", -1)}},
    {"waitopts", {W("wnohang", 1), W("0", 0), W("exited", 5), W("2", 2), W("9", 9), W("0x10", 0x10), W("nowait", 0x01000005), W("clone", (long)0x80000001), BAD("0x100", 0x100), W("all", -1)}},
    {"rlimit", {{"1000", pair_first, 1000, 0}, {"both", filled, 1, 0}, {"inf", pair_first, -1, 1}, POINTERS_WRONG}},
    {"clone", {W("17", 17), W("thread", 0x10011), W("sighand", 0x811), W("fs-newns", 0x20211), W("parent-pidfd", 0x101011 | 0x100000), BAD("thread-pidfd", 0x11900)}},
    {"magic", {W("0", 0), W("magic", (long)0xfee1dead), W("-1", -1)}},
    {"who", {W("0", 0), W("1", 1), W("2", 2), BAD("3", 3), BAD("-1", -1)}},
    {"sockopt", {SMALL, W("17", 17), W("18", 18), W("20", 20), W("21", 21), W("26", 26), W("28", 28), W("29", 29), W("30", 30), W("31", 31), W("35", 35), W("38", 38), W("39", 39), W("42", 42), BAD("-1", -1)}},
    {"level", {W("1", 1), W("0", 0), W("6", 6), BAD("-1", -1)}},
    {"family", {W("1", 1), W("0", 0), W("2", 2), W("10", 10), W("16", 16), W("17", 17), W("45", 45), W("46", 46), BAD("-1", -1)}},
    {"type", {W("1", 1), W("0", 0), W("2", 2), W("3", 3), W("5", 5), W("6", 6), W("10", 10), W("11", 11), W("nonblock", 1 | 04000), W("cloexec", 1 | 02000000), W("both", 1 | 02004000), W("unknown", 1 | 0x100), BAD("-1", -1)}},
    {"kcmp", {SMALL, BAD("-1", -1)}},
    {"none", {W("0", 0)}},
};

/* `way`: g: in a process group of its own (it sends signals); =: values are compared; r: as root it would do harm with good arguments, so only as user 1000; 1: no pairs. */
struct call { int number; const char *name, *arguments, *way; };
static const struct call calls[] = {
#include "calls.h"
};

static const struct kind *kind_of(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i].name) == length && !memcmp(kinds[i].name, name, length)) return &kinds[i];
    fprintf(stderr, "no kind %.*s\n", (int)length, name);
    exit(2);
}

static const char *error_name(int number) {
    const char *name = strerrorname_np(number);
    static char other[24];
    if (name) return name;
    snprintf(other, sizeof other, "E%d", number);
    return other;
}

struct argument { const struct kind *kind; int base; };

static int parse(const struct call *call, struct argument *arguments) {
    int count = 0;
    for (const char *at = call->arguments; *at;) {
        size_t length = strcspn(at, " "), name = 0;
        while (name < length && at[name] != '=') name++;
        struct argument *a = &arguments[count++];
        a->kind = kind_of(at, name);
        a->base = 0;
        if (name < length) {
            const char *wanted = at + name + 1;
            size_t its = length - name - 1;
            while (a->kind->values[a->base].label && !(strlen(a->kind->values[a->base].label) == its && !memcmp(a->kind->values[a->base].label, wanted, its))) a->base++;
            if (!a->kind->values[a->base].label) {
                fprintf(stderr, "%s: no value %.*s\n", call->name, (int)length, at);
                exit(2);
            }
        }
        at += length;
        at += strspn(at, " ");
    }
    return count;
}

static void run(const struct call *call, const struct argument *arguments, const int *chosen, int count) {
    long w[6] = {0};
    int me;
    if (strchr(call->way, 'g')) setpgid(0, 0);
    mkdir("d", 0755);
    for (int i = 0; i < count; i++) {
        const struct value *value = &arguments[i].kind->values[chosen[i]];
        w[i] = value->make(value->word);
    }
    me = getpid();
    long result = syscall(call->number, w[0], w[1], w[2], w[3], w[4], w[5]);
    int error = errno;
    /* (Of what fork and its like made nothing is told.) */
    if (syscall(SYS_getpid) != me) syscall(SYS_exit_group, 0);
    /* What would stay for later cases. */
    if (call->number == SYS_shmget) shmctl((int)result, IPC_RMID, NULL);
    if (call->number == SYS_semget) semctl((int)result, 0, IPC_RMID);
    if (call->number == SYS_msgget) msgctl((int)result, IPC_RMID, NULL);
    if (call->number == SYS_mq_open) syscall(SYS_mq_unlink, w[0]);
    told->result = result == -1 ? -(long)error : result;
    told->done = 1;
    syscall(SYS_exit_group, 0);
}

static void one(const struct call *call, const struct argument *arguments, const int *chosen, int count) {
    char line[512];
    int at = snprintf(line, sizeof line, "%d %s(", getuid() ? 1000 : 0, call->name), status = 0, late = 0;
    for (int i = 0; i < count; i++) at += snprintf(line + at, sizeof line - (size_t)at, "%s%s", i ? "," : "", arguments[i].kind->values[chosen[i]].label);
    told->done = 0;
    pid_t child = fork();
    if (child == 0) run(call, arguments, chosen, count);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    struct timespec limit = {LIMIT, 0};
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (late || sigtimedwait(&set, NULL, &limit) < 0) {
            late = 1;
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            break;
        }
    }
    /* What it made of processes (clone with its own ends, …). */
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (unlink(names[i]) < 0 && errno != ENOENT) rmdir(names[i]);
    if (!told->done) {
        if (late) printf("%s) waits\n", line);
        else if (WIFSIGNALED(status)) printf("%s) signal %d\n", line, WTERMSIG(status));
        else printf("%s) exit\n", line);
    } else if (told->result < 0 && told->result > -4096) {
        printf("%s) %s\n", line, error_name((int)-told->result));
    } else if (told->result == 0 || strchr(call->way, '=')) {
        printf("%s) %ld\n", line, told->result);
    } else {
        printf("%s) +\n", line);
    }
}

/* All cases of a call: each argument's values beside good ones of the others; then each two bad values. */
static void all_of(const struct call *call) {
    struct argument arguments[6];
    int count = parse(call, arguments), chosen[6];
    for (int i = 0; i < count; i++) chosen[i] = arguments[i].base;
    one(call, arguments, chosen, count);
    for (int i = 0; i < count; i++) {
        for (int v = 0; arguments[i].kind->values[v].label; v++) {
            if (v == arguments[i].base) continue;
            chosen[i] = v;
            one(call, arguments, chosen, count);
        }
        chosen[i] = arguments[i].base;
    }
    for (int i = 0; i < count && !strchr(call->way, '1'); i++) {
        for (int j = i + 1; j < count; j++) {
            for (int v = 0; arguments[i].kind->values[v].label; v++) {
                for (int u = 0; arguments[j].kind->values[u].label; u++) {
                    if (!arguments[i].kind->values[v].bad || !arguments[j].kind->values[u].bad) continue;
                    chosen[i] = v;
                    chosen[j] = u;
                    one(call, arguments, chosen, count);
                }
            }
            chosen[i] = arguments[i].base;
            chosen[j] = arguments[j].base;
        }
    }
    fflush(stdout);
}

static void as_user(int uid, const char *folder, const char *part) {
    pid_t child = fork();
    if (child) {
        waitpid(child, NULL, 0);
        return;
    }
    setsid();
    chdir(folder);
    if (uid) {
        setgroups(0, NULL);
        if (setgid((gid_t)uid) < 0 || setuid((uid_t)uid) < 0) exit(3);
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (part && !strstr(calls[i].name, part)) continue;
        if (uid == 0 && strchr(calls[i].way, 'r')) continue;
        all_of(&calls[i]);
        /* (What root may change of the system.) */
        if (uid == 0) {
            chmod("/", 0755);
            chown("/", 0, 0);
            if (access("/dev/null", F_OK) < 0) mknod("/dev/null", S_IFCHR | 0666, 1 << 8 | 3);
            chmod("/dev/null", 0666);
            chown("/dev/null", 0, 0);
        }
    }
    exit(0);
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : NULL;
    /* (A table that is wrong is told before anything runs.) */
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct argument arguments[6];
        parse(&calls[i], arguments);
    }
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    struct { char *at; size_t pages; int rights; } memory[] = {{MEMORY, PAGES, PROT_READ | PROT_WRITE}, {READ_ONLY, 1, PROT_READ}, {NO_ACCESS, 1, PROT_NONE}};
    for (int i = 0; i < 3; i++) mmap(memory[i].at, memory[i].pages * PAGE, memory[i].rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    told = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    umask(022);
    /* (The two systems' folders may have been made with other modes.) */
    chmod("/tmp", 01777);
    mkdir("/tmp/calls", 0755);
    mkdir("/tmp/calls/root", 0755);
    mkdir("/tmp/calls/root/secret", 0700);
    close(open("/tmp/calls/root/secret/x", O_CREAT | O_RDWR, 0600));
    close(open("/tmp/calls/root/private", O_CREAT | O_RDWR, 0600));
    close(open("/tmp/calls/root/readable", O_CREAT | O_RDWR, 0644));
    mkdir("/tmp/calls/0", 0755);
    mkdir("/tmp/calls/1000", 0755);
    chown("/tmp/calls/1000", 1000, 1000);
    fflush(stdout);
    as_user(0, "/tmp/calls/0", part);
    as_user(1000, "/tmp/calls/1000", part);
    puts("end");
    return 0;
}
