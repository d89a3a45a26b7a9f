/* Open files of another process: /proc/PID/fd, fdinfo and cwd, and pidfd_getfd; for whom they are, and what is left when the process has gone. */
// cairn-test: time=30
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    fflush(stdout);
    _exit(9);
}

static const char *result(long value) {
    return value >= 0 ? "ok" : strerror(errno);
}

static int pidfd_of(pid_t pid) {
    return syscall(SYS_pidfd_open, pid, 0);
}

static int getfd(int pidfd, int fd, unsigned flags) {
    return syscall(SYS_pidfd_getfd, pidfd, fd, flags);
}

static char *name_of(pid_t pid, const char *what, int fd) {
    static char path[80];
    if (fd < 0)
        snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
    else
        snprintf(path, sizeof path, "/proc/%d/%s/%d", pid, what, fd);
    return path;
}

/* A child that has what `prepare` opens, and waits. */
static pid_t child_with(void (*prepare)(void)) {
    int ready[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC))
        fail("pipe2");
    pid_t child = fork();
    if (child == 0) {
        int told = fcntl(ready[1], F_DUPFD_CLOEXEC, 30);
        prepare();
        if (write(told, "", 1) != 1)
            fail("write");
        for (;;)
            pause();
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        fail("child");
    close(ready[0]);
    return child;
}

static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* 20: a file, read up to 3; 21, 22: a pipe; 23: a socket; 24: a folder, not for what it executes. */
static void prepare(void) {
    int pair[2], sockets[2];
    char bytes[3];
    if (mkdir("/tmp/others", 0755) || chdir("/tmp/others"))
        fail("folder");
    int file = open("file", O_RDWR | O_CREAT | O_APPEND, 0644);
    if (write(file, "abcdefgh", 8) != 8 || lseek(file, 0, SEEK_SET) || read(file, bytes, 3) != 3)
        fail("file");
    if (dup2(file, 20) < 0 || pipe(pair) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
        fail("prepare");
    dup2(pair[0], 21);
    dup2(pair[1], 22);
    dup2(sockets[0], 23);
    dup3(open("/tmp/others", O_RDONLY | O_DIRECTORY), 24, O_CLOEXEC);
    for (int fd = 3; fd < 20; fd++)
        close(fd);
}

static void show_list(pid_t child, const char *what) {
    DIR *folder = opendir(name_of(child, what, -1));
    if (!folder)
        fail(what);
    printf("%s:", what);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            printf(" %s/%d", entry->d_name, entry->d_type);
    printf("\n");
    closedir(folder);
}

static void show_told(pid_t child, int fd) {
    char text[512];
    int file = open(name_of(child, "fdinfo", fd), O_RDONLY);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (length < 0)
        fail("fdinfo");
    text[length] = 0;
    close(file);
    char *flags = strstr(text, "flags:");
    printf("told of %d: %.*s, %.*s", fd, (int)strcspn(text, "\n"), text, (int)strcspn(flags, "\n") + 1, flags);
}

static void test_links(pid_t child) {
    char target[200];
    struct stat one, other;
    for (int fd = 20; fd <= 25; fd++) {
        ssize_t length = readlink(name_of(child, "fd", fd), target, sizeof target);
        if (length < 0) {
            printf("link %d: %s\n", fd, strerror(errno));
            continue;
        }
        char *bracket = memchr(target, '[', length);
        printf("link %d: %.*s\n", fd, (int)(bracket ? bracket - target : length), target);
        if (lstat(name_of(child, "fd", fd), &one) || stat(name_of(child, "fd", fd), &other))
            fail("stat");
        printf("  %o, behind it %o\n", one.st_mode & S_IFMT, other.st_mode & S_IFMT);
    }
    ssize_t length = readlink(name_of(child, "cwd", -1), target, sizeof target);
    printf("cwd: %.*s\n", (int)length, target);
    if (stat(name_of(child, "fd", 21), &one) || stat(name_of(child, "fd", 22), &other))
        fail("stat");
    printf("one pipe: %d\n", one.st_ino == other.st_ino);
    char path[100];
    snprintf(path, sizeof path, "/proc/%d/cwd/file", child);
    printf("below cwd: %s\n", result(stat(path, &one)));
    snprintf(path, sizeof path, "/proc/%d/fd/24/file", child);
    if (stat(path, &other))
        fail("below 24");
    printf("below 24: %d\n", one.st_ino == other.st_ino && one.st_size == 8);
    int folder = open(name_of(child, "fd", -1), O_RDONLY | O_DIRECTORY);
    printf("from the folder: %s, %s\n", result(fstatat(folder, "20", &one, 0)), result(fstatat(folder, "99", &one, 0)));
    close(folder);
    printf("one in a file: %s\n", result(open(name_of(child, "fd/20", 1), O_RDONLY)));
}

/* Opened again: an open file of its own. */
static void test_open(pid_t child) {
    char bytes[16];
    int file = open(name_of(child, "fd", 20), O_RDONLY);
    printf("opened: %zd\n", read(file, bytes, sizeof bytes));
    printf("written: %s\n", result(write(file, "x", 1)));
    close(file);
    int from = open(name_of(child, "fd", 21), O_RDONLY), to = open(name_of(child, "fd", 22), O_WRONLY);
    ssize_t sent = write(to, "hello", 5);
    printf("through the pipe: %zd, %zd\n", sent, read(from, bytes, sizeof bytes));
    close(from);
    close(to);
    printf("a socket: %s\n", result(open(name_of(child, "fd", 23), O_RDWR)));
    printf("not followed: %s\n", result(open(name_of(child, "fd", 20), O_RDONLY | O_NOFOLLOW)));
}

static void test_getfd(pid_t child) {
    char bytes[16];
    int pidfd = pidfd_of(child);
    int file = getfd(pidfd, 20, 0);
    if (file < 0)
        fail("pidfd_getfd");
    /* It is the same open file: position and all. */
    printf("shared: %zd, flags %d\n", read(file, bytes, sizeof bytes), fcntl(file, F_GETFD));
    show_told(child, 20);
    int pair = getfd(pidfd, 22, 0);
    printf("pipe: %zd\n", write(pair, "x", 1));
    close(file);
    close(pair);
    printf("none: %s\n", result(getfd(pidfd, 99, 0)));
    printf("-1: %s\n", result(getfd(pidfd, -1, 0)));
    printf("flags: %s\n", result(getfd(pidfd, 20, 1)));
    printf("no pidfd: %s\n", result(getfd(0, 20, 0)));
    printf("closed: %s\n", result(getfd(99, 20, 0)));
    close(pidfd);
}

/* What another user sees of it. */
static void test_stranger(pid_t child, int pidfd) {
    pid_t stranger = fork();
    if (stranger == 0) {
        char target[64];
        if (setgid(1000) || setuid(1000))
            fail("setuid");
        prctl(PR_SET_DUMPABLE, 1);
        printf("stranger: folder %s", result(open(name_of(child, "fd", -1), O_RDONLY | O_DIRECTORY)));
        printf(", link %s", result(readlink(name_of(child, "fd", 20), target, sizeof target)));
        printf(", file %s", result(open(name_of(child, "fd", 20), O_RDONLY)));
        printf(", cwd %s", result(readlink(name_of(child, "cwd", -1), target, sizeof target)));
        printf(", fdinfo %s", result(open(name_of(child, "fdinfo", 20), O_RDONLY)));
        printf(", getfd %s\n", result(getfd(pidfd, 20, 0)));
        fflush(stdout);
        _exit(0);
    }
    waitpid(stranger, NULL, 0);
}

static void many(void) {
    for (int i = 0; i < 900; i++)
        if (dup(1) < 0)
            fail("dup");
}

static void test_many(void) {
    pid_t child = child_with(many);
    int count = 0, last = -1, ordered = 1;
    DIR *folder = opendir(name_of(child, "fd", -1));
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        int fd = atoi(entry->d_name);
        ordered &= fd > last;
        last = fd;
        count++;
    }
    closedir(folder);
    printf("many: %d, ordered %d\n", count >= 903, ordered);
    end(child);
}

/* kcmp(2): a child's descriptors beside its parent's. */
static void test_compare(void) {
    enum { FILE_KIND = 0, MEMORY = 1, FILES = 2 };
    int shared = open("/tmp", O_RDONLY), fds[2];
    pipe(fds);
    pid_t own = getpid(), child = fork();
    if (child == 0) {
        int again = open("/tmp", O_RDONLY);
        dup2(again, 60);
        dup2(shared, 61);
        write(fds[1], "", 1);
        pause();
        _exit(0);
    }
    char byte;
    read(fds[0], &byte, 1);
    printf("compare: same %ld", syscall(SYS_kcmp, own, child, FILE_KIND, shared, shared));
    printf(", by another number %ld", syscall(SYS_kcmp, child, own, FILE_KIND, 61, shared));
    printf(", both the child's %ld", syscall(SYS_kcmp, child, child, FILE_KIND, 61, shared));
    printf(", opened again %d", syscall(SYS_kcmp, own, child, FILE_KIND, shared, 60) > 0);
    printf(", ends of a pipe %d\n", syscall(SYS_kcmp, own, child, FILE_KIND, fds[0], fds[1]) > 0);
    printf("memory %d, descriptors %d", syscall(SYS_kcmp, own, child, MEMORY, 0, 0) > 0, syscall(SYS_kcmp, own, child, FILES, 0, 0) > 0);
    printf(", none %s", result(syscall(SYS_kcmp, own, child, FILE_KIND, shared, 99)));
    printf(", no kind %s\n", result(syscall(SYS_kcmp, own, child, 77, 0, 0)));
    end(child);
    printf("with nobody %s\n", result(syscall(SYS_kcmp, own, child, FILE_KIND, shared, shared)));
    close(shared);
    close(fds[0]);
    close(fds[1]);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    umask(022);
    pid_t child = child_with(prepare);
    int pidfd = pidfd_of(child);
    show_list(child, "fd");
    show_list(child, "fdinfo");
    for (int fd = 20; fd <= 24; fd++)
        show_told(child, fd);
    test_links(child);
    test_open(child);
    test_getfd(child);
    test_stranger(child, pidfd);
    /* What it stopped in makes no difference. */
    kill(child, SIGSTOP);
    waitpid(child, NULL, WUNTRACED);
    show_list(child, "fd");
    int file = getfd(pidfd, 21, 0);
    printf("stopped: %s\n", result(file));
    close(file);
    end(child);
    printf("gone: %s\n", result(getfd(pidfd, 20, 0)));
    close(pidfd);
    test_many();
    test_compare();
    /* Oneself, by number and not. */
    char target[100];
    struct stat status;
    int folder = open("/proc/self", O_RDONLY | O_DIRECTORY);
    printf("self: %s, %s\n", result(readlinkat(folder, "fd/0", target, sizeof target)), result(fstatat(folder, "fd/1", &status, 0)));
    show_told(getpid(), folder);
    unlink("/tmp/others/file");
    rmdir("/tmp/others");
    return 0;
}
