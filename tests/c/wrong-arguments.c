/* What calls answer to wrong arguments, and which error comes first of several: a short selection of `./cairn compat calls`. And tee, vmsplice, getdents, sched_setattr do what they are for. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    if (result < 0) printf("%s: error %d\n", what, errno);
    else printf("%s: %ld\n", what, result);
}
#define TELL(call, ...) tell(#call " " #__VA_ARGS__, syscall(SYS_##call, __VA_ARGS__))

static void advice(int file, int pipe_end, int writes) {
    TELL(fadvise64, file, 0, 16, 0);
    TELL(fadvise64, file, 0, 16, 6);
    TELL(fadvise64, file, 0, -1L, 0);
    TELL(fadvise64, pipe_end, 0, 16, 0);
    TELL(fadvise64, 99, 0, -1L, 77);
    TELL(readahead, file, 0L, 16L);
    TELL(readahead, writes, 0L, 16L);
    TELL(readahead, pipe_end, 0L, 16L);
    TELL(readahead, file, 0L, -1L);
    TELL(sync_file_range, file, 0L, 0L, 7);
    TELL(sync_file_range, file, 0L, 0L, 8);
    TELL(sync_file_range, file, -1L, 0L, 0);
    TELL(sync_file_range, pipe_end, 0L, 0L, 0);
    TELL(syncfs, 99);
}

static void moving(int file, int reads, int writes, int other) {
    char data[16] = "abcdefgh", back[16] = {0};
    struct iovec part = {data, 4}, into = {back, 4}, wrong = {(void *)8, 4};
    struct stat now;
    TELL(pread64, reads, back, 4, 0L);
    TELL(pread64, 99, back, 4, -1L);
    TELL(pwrite64, reads, back, 4, 0L);
    TELL(preadv2, file, &into, 1, 0L, 0L, 0x40);
    TELL(preadv2, file, &wrong, 1, 0L, 0L, 0);
    TELL(pwritev2, file, &part, 1, 0L, 0L, 16);
    fstat(file, &now);
    printf("appended: %ld bytes\n", (long)now.st_size);
    TELL(pwritev2, file, &part, 1, 0L, 0L, 6);
    TELL(ftruncate, 99, -1L);
    TELL(vmsplice, writes, &part, 1L, 0);
    TELL(vmsplice, writes, &part, 1L, 16);
    TELL(vmsplice, file, &part, 1L, 0);
    TELL(tee, reads, writes, 4L, 0);
    TELL(tee, reads, file, 4L, 0);
    TELL(tee, reads, other, 0L, 77);
    TELL(tee, reads, other, 4L, 77);
    TELL(tee, reads, other, 100L, 0);
    TELL(tee, reads, other, 2L, 0);
    TELL(vmsplice, reads, &into, 1L, 0);
    printf("out of the pipe: %.4s\n", back);
    TELL(splice, reads, &(long){0}, file, 0, 4L, 0);
    TELL(splice, reads, 0, file, 0, 4L, 77);
    TELL(splice, reads, 0, file, 0, 0L, 77);
    TELL(splice, file, 0, file, 0, 4L, 0);
    TELL(copy_file_range, 99, 8L, file, 0, 4L, 5);
    TELL(copy_file_range, file, 8L, file, 0, 4L, 5);
    TELL(sendfile, 99, file, 8L, 4L);
    TELL(sendfile, file, reads, &(long){0}, 4L);
    TELL(sendfile, file, reads, 0, 4L);
}

static void names(void) {
    char longer[300];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    close(open("file", O_CREAT | O_RDWR, 0644));
    TELL(rename, "", 8L);
    TELL(rename, "file/x", 8L);
    TELL(rename, "file", 8L);
    TELL(link, "none", 8L);
    TELL(link, longer, 8L);
    TELL(symlink, "", 8L);
    TELL(open, "none/x", O_CREAT | O_DIRECTORY, 0600);
    TELL(open, "file", 020000000 | O_RDWR, 0600);
    TELL(execve, "", 8L, 0);
    mkfifo("fifo", 0755);
    TELL(execve, "fifo", (char *[]){"x", NULL}, 0);
    uint64_t how[4] = {0};
    TELL(openat2, AT_FDCWD, "file", how, 23L);
    TELL(openat2, AT_FDCWD, "file", how, 4097L);
    how[3] = 1;
    TELL(openat2, AT_FDCWD, "file", how, 32L);
    how[3] = 0;
    how[0] = 1ul << 40;
    TELL(openat2, AT_FDCWD, 8L, how, 24L);
    how[0] = 0;
    how[1] = 0644;
    TELL(openat2, AT_FDCWD, "file", how, 24L);
}

static void others(int file) {
    struct timespec zero = {0, 0}, wrong = {0, -1};
    uint32_t attributes[12] = {48};
    int none = 0x3ffffff0, timer;
    TELL(rt_sigpending, &timer, 9L);
    TELL(rt_sigaction, 65, 8L, 0, 8L);
    TELL(kill, none, 65);
    TELL(tgkill, none, none, 65);
    TELL(clock_nanosleep, 5, 0, &zero, 0);
    TELL(clock_nanosleep, 77, 0, 8L, 0);
    TELL(timer_create, 5, 0, &timer);
    TELL(timer_settime, 7777, 0, 0, 0);
    TELL(clock_settime, 1, &zero);
    TELL(clock_settime, 0, &wrong);
    TELL(clock_settime, 0, 8L);
    TELL(settimeofday, &(long[2]){0, -1}, 0);
    TELL(sched_setscheduler, 0, 0, 0);
    TELL(sched_setscheduler, 0, -1, 8L);
    TELL(sched_setparam, 0, 0);
    TELL(sched_getparam, 0, 0);
    TELL(prlimit64, none, 77, 0, 0);
    TELL(setpgid, -5, 0);
    TELL(flock, file, 77);
    TELL(fcntl, file, F_GETLK, &(struct flock){.l_type = F_UNLCK});
    /* (Whatever ran before.) */
    syscall(SYS_setpriority, 0, 0, 1);
    TELL(sched_getattr, 0, attributes, 48, 0);
    printf("size %u, policy %u, nice %d\n", attributes[0], attributes[1], (int)attributes[4]);
    TELL(sched_getattr, 0, attributes, 47, 0);
    attributes[4] = 3;
    TELL(sched_setattr, 0, attributes, 0);
    printf("nice %ld\n", 20 - syscall(SYS_getpriority, 0, 0));
    attributes[0] = 47;
    TELL(sched_setattr, 0, attributes, 0);
    printf("size %u\n", attributes[0]);
    attributes[1] = 77;
    TELL(sched_setattr, 0, attributes, 0);
    uint64_t time[26] = {1};
    TELL(adjtimex, 8L);
    time[0] = 0x8000;
    TELL(adjtimex, time);
    TELL(clock_adjtime, 1, time);
    TELL(clock_adjtime, 77, time);
}

/* The names in a folder, by getdents(2): their lengths and types, in no order that anybody promised. */
static void listing(void) {
    char records[1024];
    int types[16] = {0}, letters = 0;
    mkdir("folder", 0755);
    close(open("folder/abc", O_CREAT | O_RDWR, 0644));
    mkdir("folder/defgh", 0755);
    int folder = open("folder", O_RDONLY | O_DIRECTORY);
    for (long length; (length = syscall(SYS_getdents, folder, records, sizeof records)) > 0;) {
        for (long at = 0; at < length;) {
            unsigned short size;
            memcpy(&size, records + at + 16, 2);
            letters += (int)strlen(records + at + 18);
            types[records[at + size - 1] & 15]++;
            at += size;
        }
    }
    printf("%d letters, %d folders, %d files\n", letters, types[DT_DIR], types[DT_REG]);
}

/* What is said first of several things that are wrong. */
static void orders(void) {
    static unsigned char ones[4096], zeros[4096];
    memset(ones, 0xff, sizeof ones);
    int word = 0, set = syscall(SYS_epoll_create1, 0), path = open("data", O_PATH), null = open("/dev/null", O_RDWR);
    tell("accept4", syscall(SYS_accept4, -1, NULL, NULL, 1u << 31));
    tell("recvmmsg: flags", syscall(SYS_recvmmsg, -1, zeros, 1, 1u << 31, NULL));
    tell("recvmmsg: time", syscall(SYS_recvmmsg, -1, zeros, 1, 0, ones));
    tell("a wake has no clock", syscall(SYS_futex, &word, 1 | 256, 1, NULL, NULL, 0));
    tell("semop: operations", syscall(SYS_semop, -1, NULL, 1));
    tell("semop: many", syscall(SYS_semop, -1, zeros, 1u << 31));
    tell("semop: set", syscall(SYS_semop, -1, zeros, 1));
    tell("semtimedop: time", syscall(SYS_semtimedop, -1, NULL, 1, ones));
    tell("clone3: what is not known", syscall(SYS_clone3, ones, sizeof ones));
    tell("clone3: long", syscall(SYS_clone3, NULL, 65536));
    tell("epoll_wait of a path", syscall(SYS_epoll_wait, path, zeros, 1, 0));
    tell("the position of a set", lseek(set, 7, SEEK_SET));
    tell("fsync of a device", fsync(null));
    tell("msync of nothing", syscall(SYS_msync, 4096, 4096, 1));
    tell("madvise of nothing", syscall(SYS_madvise, 4096, 4096, 0));
}

/* A page that can be used, before one that cannot. */
static char *edge(void) {
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 4096, 4096, PROT_NONE);
    return pages + 4096;
}

/* As much of a regular file is moved as there is memory for; of random bytes too. */
static void ends(int file) {
    char *end = edge(), back[8] = {0};
    memcpy(end - 3, "xyz", 3);
    tell("a short write of few", pwrite(file, end - 3, 8, 0));
    tell("a short write of many", pwrite(file, end - 100, 200, 0));
    pread(file, back, 5, 97);
    printf("written: %.3s\n", back);
    tell("a short read of few", pread(file, end - 2, 8, 0));
    tell("a short read of many", pread(file, end - 80, 100, 0));
    lseek(file, 0, SEEK_SET);
    tell("by the position", read(file, end - 1, 8));
    tell("by the position", read(file, end - 60, 90));
    tell("by the position", write(file, end - 2, 8));
    tell("the position", lseek(file, 0, SEEK_CUR));
    tell("nothing there", read(file, end, 8));
    tell("nothing there", write(file, end, 100));
    tell("random bytes", syscall(SYS_getrandom, end - 5, 300, 0));
    tell("no random bytes", syscall(SYS_getrandom, end, 300, 0));
    if (fork() == 0) {
        /* Where there is no /dev. */
        tell("an empty root", mkdir("/tmp/empty-root", 0700) | chroot("/tmp/empty-root") | chdir("/"));
        tell("no device", open("/dev/urandom", O_RDONLY));
        tell("few random bytes", syscall(SYS_getrandom, end - 32, 20, 0));
        tell("more of them", syscall(SYS_getrandom, end - 99, 99, 0));
        tell("up to the end", syscall(SYS_getrandom, end - 40, 50, 0));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    rmdir("/tmp/empty-root");
}

/* Lengths that are none once they are whole pages, and flags of mmap(2) that want an answer. */
static void pages(int file) {
    char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TELL(mlock, at, -1L);
    TELL(munlock, at, -1L);
    TELL(msync, at, -1L, 4);
    TELL(madvise, at, 0x7fffffffffffffffL, 0);
    TELL(madvise, at, 4096L, 25);
    TELL(mprotect, at + 1, -4096L, 1);
    TELL(mincore, at + 1, -4096L, at);
    TELL(mremap, at, 4096L, -1L, 1);
    TELL(mremap, 0x123000L, 4096L, -4096L, 1);
    TELL(mremap, at, -4096L, 4096L, 1);
    TELL(mmap, 0, 4096L, 1, MAP_PRIVATE | MAP_ANONYMOUS | 0x40000, -1, 0);
    TELL(mmap, 0, 4096L, 1, MAP_PRIVATE | 0x40000, file, 0);
    TELL(mmap, 0, 4096L, 1, 3 | 0x80000, file, 0);
    TELL(mmap, 0, 4096L, 1, 3 | MAP_ANONYMOUS, -1, 0);
}

/* What is ready is told although no time is given to wait for it; microseconds may be a second and more. */
static void times(void) {
    int pair[2], set;
    pipe(pair);
    write(pair[1], "x", 1);
    struct pollfd one = {pair[0], POLLIN, 0};
    struct timespec little = {0, 1}, wrong[2] = {{0, -1}, {0, 0}};
    struct timeval long_micros = {0, 1000000};
    fd_set reads;
    tell("ppoll", ppoll(&one, 1, &little, NULL));
    FD_ZERO(&reads);
    FD_SET(pair[0], &reads);
    tell("select", syscall(SYS_select, pair[0] + 1, &reads, NULL, NULL, &long_micros));
    TELL(utimensat, AT_FDCWD, "absent", wrong, 0);
    TELL(utimensat, AT_FDCWD, "data", wrong, 0);
    TELL(utimensat, 99, 0, wrong, 0);
    TELL(timer_create, -1, 0, 0);
    TELL(timer_create, -5, 0, &set);
    TELL(timer_create, 0, 0, &set);
    TELL(timer_gettime, set, 0);
    TELL(clock_nanosleep, -5, 0, &little, 0);
    TELL(utimensat, AT_FDCWD, "data", -16L, 0x40);
    TELL(clock_settime, -1, 0);
    TELL(sigaltstack, &(long[3]){0}, 0);
    TELL(wait4, -1, 0, WNOHANG, -16L);
    TELL(waitid, P_ALL, 0, 0, WEXITED, -16L);
    TELL(waitid, P_PIDFD + 1, 0, -16L, WEXITED, 0);
}

/* Names: what is there already, what is no link, lists of attributes. */
static void more_names(int file, int reads) {
    struct stat s;
    char text[64];
    TELL(mkdir, "data/", 0755);
    TELL(symlink, "x", "data/");
    TELL(link, "data", "data/");
    TELL(mknod, "data/", 0644, 0);
    TELL(creat, "data/", 0644);
    TELL(rename, "data/x", "");
    TELL(link, "data/x", "");
    TELL(readlinkat, file, "", text, sizeof text);
    TELL(newfstatat, AT_FDCWD, "data", &s, 0x2000);
    TELL(statx, AT_FDCWD, "absent", 0, 0x80000000, text);
    TELL(flistxattr, reads, text, sizeof text);
    TELL(listxattr, "data", -16L, 64L);
    int notices = syscall(SYS_inotify_init1, 0);
    TELL(pwrite64, notices, text, 4L, 0L);
    int event = syscall(SYS_eventfd2, 0, 0);
    TELL(lseek, event, 5L, SEEK_SET);
    TELL(fsetxattr, event, "abc", "x", 1L, 0);
}

/* What belongs to one process, and what sockets are asked. */
static void single(void) {
    int pair[2];
    /* Not on the stack: Linux puts it near the end of what a program may have, or not, and takes a length beyond that end for a fault. */
    static int word;
    unsigned size = sizeof word;
    TELL(unshare, 0x100 | 0x800 | 0x10000);
    TELL(clone, 0x800, 0, 0, 0, 0);
    TELL(setpgid, -1, 5);
    TELL(rt_tgsigqueueinfo, 0, 1, 0, &(char[128]){0});
    TELL(prctl, 13, 0, 0, 0, 0);
    TELL(prctl, 25, &word, 0, 0, 0);
    TELL(prctl, 39, 1, 0, 0, 0);
    tell("epoll_create1: bits above", syscall(SYS_epoll_create1, 1ul << 32) < 0 ? -1 : 0);
    TELL(signalfd4, -1, 0, 8L, 1 << 31);
    TELL(socketpair, 16, 1, 0, pair);
    TELL(socketpair, 77, 1, 0, -16L);
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair);
    TELL(recvfrom, pair[0], &word, -1L, 0, 0, 0);
    TELL(recvmsg, -1, 0, 1u << 31);
    TELL(recvmsg, pair[0], (&(struct msghdr){.msg_name = &word, .msg_namelen = -1}), 0);
    TELL(sendmsg, -1, 0, 1u << 31);
    TELL(setsockopt, -1, 1, 2, 0, -1);
    TELL(setsockopt, pair[0], 1, 29, &(int){0}, 4);
    TELL(getsockopt, pair[0], 1, 29, &word, &size);
    TELL(getsockopt, pair[0], 77, 2, 0, 0);
    TELL(fallocate, pair[0], 0, 0L, 16L);
    /* The permissions of a socket are its name's later; a pipe has some, too. */
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "named"};
    struct stat its, of_pipe;
    int alone = socket(AF_UNIX, SOCK_STREAM, 0), ends[2];
    pipe(ends);
    TELL(fchmod, alone, 0750);
    bind(alone, (void *)&name, sizeof name);
    stat("named", &its);
    TELL(fchmod, ends[0], 0640);
    TELL(fchown, ends[1], 5, 6);
    fstat(ends[0], &of_pipe);
    printf("socket %o, pipe %o of %u %u\n", its.st_mode & 07777, of_pipe.st_mode & 07777, of_pipe.st_uid, of_pipe.st_gid);
}

/* Of another user's file: no name of one's own, no attribute, and no other place. */
static void strangers(void) {
    mkdir("own", 0777);
    chmod("own", 0777);
    if (fork() == 0) {
        setuid(1000);
        TELL(link, "data", "own/new");
        TELL(linkat, open("data", O_RDONLY), "", AT_FDCWD, "own/new", AT_EMPTY_PATH);
        TELL(setxattr, "data", "abc", "x", 1L, 0);
        TELL(rename, "data", "own");
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

/* Texts first, then the target, the privilege, the type and the source; as user 1000 too. */
static void mounts(const char *who) {
    mkdir("folder", 0755);
    printf("%s\n", who);
    tell("mount: type too far", syscall(SYS_mount, "none", "folder", (char *)-1L, 0, NULL));
    tell("mount: source too far", syscall(SYS_mount, (char *)-1L, "absent", "abc", 0, NULL));
    tell("mount: absent target", syscall(SYS_mount, "none", "absent", "abc", 0, NULL));
    tell("mount: type unknown", syscall(SYS_mount, "absent", "data", "abc", 0, NULL));
    tell("mount: empty type", syscall(SYS_mount, "none", "folder", "", 0, NULL));
    tell("mount: no type", syscall(SYS_mount, "none", "folder", NULL, 0, NULL));
    tell("mount: target is a file", syscall(SYS_mount, "none", "data", "tmpfs", 0, NULL));
    tell("umount2: flags", syscall(SYS_umount2, "absent", 1 << 20));
    tell("umount2: flags above", syscall(SYS_umount2, "folder", 1L << 32));
    tell("umount2: absent", syscall(SYS_umount2, "absent", 0));
    tell("umount2: a file", syscall(SYS_umount2, "data", 0));
    tell("umount2: a folder", syscall(SYS_umount2, "folder", 0));
    tell("pivot_root", syscall(SYS_pivot_root, NULL, "absent"));
}

/* A stream takes no name to send to, whatever it is. */
static void receivers(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "absent"};
    int pair[2], alone = socket(AF_UNIX, SOCK_STREAM, 0), letters = socket(AF_UNIX, SOCK_DGRAM, 0);
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair);
    tell("sendto by a stream", sendto(pair[0], "x", 1, 0, (void *)&name, sizeof name));
    tell("a long name", sendto(pair[0], "x", 1, 0, (void *)&name, 111));
    tell("a short name", sendto(pair[0], "x", 1, 0, (void *)&name, 1));
    tell("no name", sendto(pair[0], "x", 1, 0, (void *)&name, 0));
    tell("data too far", sendto(pair[0], (char *)-16L, 1, 0, (void *)&name, sizeof name));
    tell("a name too far", sendto(pair[0], "x", 1, 0, (void *)-16L, sizeof name));
    tell("by an unconnected stream", sendto(alone, "x", 1, 0, (void *)&name, sizeof name));
    tell("by a datagram socket", sendto(letters, "x", 1, 0, (void *)&name, sizeof name));
    tell("of a long name", sendto(letters, "x", 1, 0, (void *)&name, 111));
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &part, .msg_iovlen = 1};
    tell("sendmsg by a stream", sendmsg(pair[0], &message, 0));
    tell("sendmsg by a datagram socket", sendmsg(letters, &message, 0));
}

int main(void) {
    int one[2], two[2];
    int file = open("data", O_CREAT | O_RDWR, 0644), writes = open("data", O_WRONLY);
    write(file, "0123456789", 10);
    pipe2(one, O_NONBLOCK);
    pipe2(two, O_NONBLOCK);
    advice(file, one[0], writes);
    moving(file, one[0], one[1], two[1]);
    char left[64];
    printf("%ld bytes by tee\n", (long)read(two[0], left, sizeof left));
    names();
    others(file);
    listing();
    orders();
    receivers();
    ends(file);
    pages(file);
    times();
    more_names(file, one[0]);
    single();
    tell("wait for the group that no number means", waitpid(-2147483647 - 1, NULL, 0));
    int folder = open("/tmp", O_RDONLY);
    tell("map a folder", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, folder, 0) == MAP_FAILED ? -1 : 0);
    close(folder);
    fflush(stdout);
    strangers();
    mounts("as root");
    setuid(1000);
    mounts("as a user");
    return 0;
}
