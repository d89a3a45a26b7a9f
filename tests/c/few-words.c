/* Calls that few programs use: openat2's restrictions, futex_waitv, membarrier, process_vm_readv and its twin, kcmp, ioprio_set, ustat, sysfs, and what extended attributes' calls look at first. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

static void tell(const char *what, long result) {
    if (result < 0) printf("%s: error %d\n", what, errno);
    else printf("%s: %ld\n", what, result);
}

enum { NO_XDEV = 1, NO_MAGICLINKS = 2, NO_SYMLINKS = 4, BENEATH = 8, IN_ROOT = 16 };

static void resolved(int folder, const char *name, uint64_t flags, uint64_t resolve) {
    struct { uint64_t flags, mode, resolve; } how = {flags, flags & O_CREAT ? 0644 : 0, resolve};
    char line[128], text[16] = "";
    int fd = (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
    snprintf(line, sizeof line, "openat2 %s %llx %llu", name, (unsigned long long)flags, (unsigned long long)resolve);
    if (fd < 0) {
        tell(line, fd);
        return;
    }
    if (!(flags & (O_PATH | O_DIRECTORY))) read(fd, text, sizeof text - 1);
    printf("%s: %s\n", line, text);
    close(fd);
}

static void put(const char *name, const char *text) {
    int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    write(fd, text, strlen(text));
    close(fd);
}

static void resolving(void) {
    mkdir("root", 0755);
    mkdir("root/inner", 0755);
    put("root/inner/file", "inside");
    put("outside", "outside");
    symlink("inner/file", "root/link");
    symlink("/inner/file", "root/absolute");
    symlink("../outside", "root/up");
    symlink("inner", "root/folder");
    symlink("round", "root/round");
    int folder = open("root", O_RDONLY | O_DIRECTORY);
    const char *names[] = {"inner/file", "inner/../inner/file", "inner/../../outside", "link", "absolute", "up", "folder/file", "../outside", "/inner/file", "round", "none", "inner/file/x", "inner/file/"};
    uint64_t ways[] = {BENEATH, IN_ROOT, NO_SYMLINKS, NO_MAGICLINKS, NO_XDEV};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (size_t n = 0; n < sizeof names / sizeof *names; n++)
            /* (Whether this folder is on the root's device is the machine's.) */
            if (ways[w] != NO_XDEV || strcmp(names[n], "absolute")) resolved(folder, names[n], O_RDONLY, ways[w]);
    resolved(folder, "inner", O_RDONLY | O_DIRECTORY, BENEATH);
    resolved(folder, ".", O_RDONLY | O_DIRECTORY, BENEATH);
    resolved(folder, "..", O_RDONLY | O_DIRECTORY, IN_ROOT);
    resolved(folder, "link", O_PATH | O_NOFOLLOW, NO_SYMLINKS);
    resolved(folder, "link", O_RDONLY | O_NOFOLLOW, BENEATH);
    resolved(folder, "inner/made", O_RDWR | O_CREAT, BENEATH);
    resolved(folder, "inner/made", O_RDWR | O_CREAT | O_EXCL, BENEATH);
    resolved(folder, "../made", O_RDWR | O_CREAT, BENEATH);
    resolved(AT_FDCWD, "/proc/self/exe", O_RDONLY, NO_MAGICLINKS);
    resolved(AT_FDCWD, "/proc/self/status", O_RDONLY | O_PATH, NO_MAGICLINKS);
    resolved(AT_FDCWD, "/proc/self/status", O_RDONLY | O_PATH, NO_SYMLINKS);
    resolved(AT_FDCWD, "/proc/version", O_RDONLY | O_PATH, NO_XDEV);
    resolved(99, "x", O_RDONLY, BENEATH);
    resolved(AT_FDCWD, "outside", O_RDONLY, BENEATH);
    printf("not made: %d\n", access("made", F_OK));
}

struct waiter { uint64_t value, address; uint32_t flags, reserved; };
static uint32_t words[3];
static void *waker(void *none) {
    usleep(20000);
    __atomic_store_n(&words[1], 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &words[1], 129, 1, NULL, NULL, 0);
    return none;
}
static void several_words(void) {
    struct waiter all[3];
    struct timespec until;
    pthread_t thread;
    for (int i = 0; i < 3; i++) all[i] = (struct waiter){0, (uint64_t)&words[i], 2 | 128, 0};
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 10000000;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
    tell("nobody wakes", syscall(SYS_futex_waitv, all, 3, 0, &until, CLOCK_MONOTONIC));
    pthread_create(&thread, NULL, waker, NULL);
    tell("the second", syscall(SYS_futex_waitv, all, 3, 0, NULL, 0));
    pthread_join(thread, NULL);
    tell("another value", syscall(SYS_futex_waitv, all, 3, 0, NULL, 0));
    tell("none", syscall(SYS_futex_waitv, all, 0, 0, NULL, 0));
    tell("too many", syscall(SYS_futex_waitv, all, 129, 0, NULL, 0));
    all[0].flags = 1;
    tell("a byte", syscall(SYS_futex_waitv, all, 1, 0, NULL, 0));
}

static void barriers(void) {
    printf("known: %ld\n", syscall(SYS_membarrier, 0, 0, 0) & 0x1f);
    tell("not registered", syscall(SYS_membarrier, 8, 0, 0));
    tell("registering", syscall(SYS_membarrier, 16, 0, 0));
    tell("private", syscall(SYS_membarrier, 8, 0, 0));
    tell("global", syscall(SYS_membarrier, 1, 0, 0));
    tell("flags", syscall(SYS_membarrier, 0, 1, 0));
    tell("no command", syscall(SYS_membarrier, 1 << 20, 0, 0));
}

static void memory(void) {
    char from[] = "abcdefgh", to[9] = "";
    struct iovec near[] = {{to, 3}, {to + 3, 5}}, far[] = {{from, 6}, {from + 6, 2}}, bad[] = {{to, 4}, {(void *)8, 4}};
    tell("read", syscall(SYS_process_vm_readv, getpid(), near, 2L, far, 2L, 0L));
    puts(to);
    memcpy(to, "12345678", 8);
    tell("write", syscall(SYS_process_vm_writev, getpid(), near, 2L, far, 2L, 0L));
    puts(from);
    tell("nobody", syscall(SYS_process_vm_readv, 0x3ffffff0, near, 2L, far, 2L, 0L));
    tell("flags", syscall(SYS_process_vm_readv, getpid(), near, 2L, far, 2L, 1L));
    tell("part", syscall(SYS_process_vm_readv, getpid(), near, 2L, bad, 2L, 0L));
    tell("none", syscall(SYS_process_vm_readv, getpid(), near, 0L, bad, 2L, 0L));
}

static void the_same(void) {
    int a = open("outside", O_RDONLY), b = dup(a), c = open("outside", O_RDONLY);
    pid_t me = getpid();
    tell("itself", syscall(SYS_kcmp, me, me, 0, a, a));
    tell("a copy", syscall(SYS_kcmp, me, me, 0, a, b));
    printf("another: %d\n", syscall(SYS_kcmp, me, me, 0, a, c) > 0);
    tell("memory", syscall(SYS_kcmp, me, me, 1, 0, 0));
    tell("closed", syscall(SYS_kcmp, me, me, 0, a, 99));
    tell("nobody", syscall(SYS_kcmp, me, 0x3ffffff0, 0, a, a));
    tell("what", syscall(SYS_kcmp, me, me, 99, a, a));
}

static void priorities(void) {
    tell("ioprio_get", syscall(SYS_ioprio_get, 1, 0));
    tell("best effort 3", syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 3));
    tell("ioprio_get", syscall(SYS_ioprio_get, 1, 0));
    if (fork() == 0) {
        tell("a child's", syscall(SYS_ioprio_get, 1, 0));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    tell("level 8", syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 8));
    tell("idle", syscall(SYS_ioprio_set, 1, getpid(), 3 << 13));
    tell("class 4", syscall(SYS_ioprio_set, 1, 0, 4 << 13));
    tell("nobody", syscall(SYS_ioprio_get, 1, 0x3ffffff0));
    tell("what", syscall(SYS_ioprio_get, 9, 0));
    tell("none", syscall(SYS_ioprio_set, 1, 0, 0));
}

static void old_ones(void) {
    struct stat here;
    char room[64] = "", name[64] = "";
    stat(".", &here);
    tell("ustat", syscall(SYS_ustat, here.st_dev, room));
    tell("ustat of nothing", syscall(SYS_ustat, 0x7fffffff, room));
    long proc = syscall(SYS_sysfs, 1, "proc");
    printf("sysfs: %d\n", proc >= 0 && proc < syscall(SYS_sysfs, 3));
    tell("by number", syscall(SYS_sysfs, 2, proc, name));
    puts(name);
    tell("no such type", syscall(SYS_sysfs, 1, "none"));
    tell("what", syscall(SYS_sysfs, 9, 0));
}

static void attributes(void) {
    int fd = open("outside", O_RDONLY);
    tell("flags", setxattr("outside", "user.x", "1", 1, 4));
    tell("no file, flags", setxattr("none", "user.x", "1", 1, 4));
    tell("no file, no name", getxattr("none", (char *)8, NULL, 0));
    tell("no descriptor", fsetxattr(99, "user.x", "1", 1, 4));
    tell("no name", fgetxattr(fd, "", NULL, 0));
    tell("a long value", syscall(SYS_setxattr, "outside", "user.x", "1", 65537L, 0));
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    resolving();
    several_words();
    barriers();
    memory();
    the_same();
    priorities();
    old_ones();
    attributes();
    return 0;
}
