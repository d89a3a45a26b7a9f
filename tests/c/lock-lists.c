/* /proc/locks and the lock: lines of fdinfo: record locks of processes and open files, flock, leases, who waits for them; as root and as user 1000, with many. */
// cairn-test: time=60
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static char file_id[40];
static pid_t own, child;

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The lines about the file, sorted, with names in the place of numbers. */
static int list(const char *when, const char *path, const char *begin, int shows) {
    static char lines[20][200];
    char *sorted[20], line[300];
    FILE *from = fopen(path, "r");
    if (!from) fail(path);
    int count = 0;
    while (fgets(line, sizeof line, from)) {
        if (strncmp(line, begin, strlen(begin)) || !strstr(line, file_id)) continue;
        char type[20], how[20], mode[20], id[40], first[30], last[30], *at = line + strlen(begin);
        long number;
        int pid, skipped;
        if (sscanf(at, " %ld:%n", &number, &skipped) != 1) fail(line);
        at += skipped;
        int waits = !strncmp(at, " -> ", 4);
        if (waits) at += 3;
        if (sscanf(at, " %19s %19s %19s %d %39s %29s %29s", type, how, mode, &pid, id, first, last) != 7) fail(line);
        // The columns.
        char made[200];
        snprintf(made, sizeof made, " %-6s %-9s %s %d %s %s %s\n", type, how, mode, pid, id, first, last);
        const char *who = pid == own ? "own" : pid == child ? "child" : pid == -1 ? "-1" : "other";
        if (count < 20)
            snprintf(lines[count], sizeof lines[count], "%s%s %s %s %s %s %s%s\n", waits ? "waits " : "", type, how, mode, who, first, last, strcmp(at, made) ? " (other columns)" : "");
        count++;
    }
    fclose(from);
    if (!shows) return count;
    for (int i = 0; i < count && i < 20; i++) sorted[i] = lines[i];
    qsort(sorted, count, sizeof *sorted, compare);
    printf("%s: %d\n", when, count);
    for (int i = 0; i < count && i < 20; i++) printf("  %s", sorted[i]);
    return count;
}

static void all(const char *when) {
    list(when, "/proc/locks", "", 1);
}

static void of_file(const char *when, pid_t pid, int fd) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", pid, fd);
    list(when, path, "lock:\t", 1);
}

static long lock(int fd, int command, int kind, long start, long length) {
    struct flock wish = {.l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    return fcntl(fd, command, &wish);
}

static void end_child(void) {
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0) {}
}

/* Until so many lines are there. */
static void wait_for(int lines) {
    for (int i = 0; i < 5000 && list("", "/proc/locks", "", 0) != lines; i++) usleep(1000);
}

static void handler(int signal) {
    (void)signal;
}

static void test(const char *path) {
    child = -2;
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    struct stat stat;
    if (fd < 0 || fstat(fd, &stat) < 0) fail(path);
    snprintf(file_id, sizeof file_id, " %02x:%02x:%lu ", major(stat.st_dev), minor(stat.st_dev), (unsigned long)stat.st_ino);
    all("nothing");
    lock(fd, F_SETLK, F_WRLCK, 10, 5);
    lock(fd, F_SETLK, F_RDLCK, 100, 0);
    int other = open(path, O_RDWR);
    lock(other, F_OFD_SETLK, F_WRLCK, 20, 1);
    all("of process and open file");
    of_file("fdinfo", own, fd);
    of_file("fdinfo of the other", own, other);
    // A child has none of the process's, and its own open file is the same.
    fflush(stdout);
    int ready[2];
    if (pipe(ready)) fail("pipe");
    if (!(child = fork())) {
        char byte = lock(fd, F_SETLK, F_WRLCK, 50, 5) ? 'n' : 'y';
        if (write(ready[1], &byte, 1) != 1) _exit(1);
        lock(fd, F_SETLKW, F_RDLCK, 0, 30);
        _exit(0);
    }
    char byte;
    if (read(ready[0], &byte, 1) != 1) fail("read");
    printf("child: %c\n", byte);
    wait_for(5);
    all("a child waits");
    of_file("its fdinfo", child, fd);
    of_file("its fdinfo of the other", child, other);
    of_file("own", own, fd);
    end_child();
    wait_for(3);
    child = -2;
    all("it ended");
    lock(fd, F_SETLK, F_UNLCK, 0, 0);
    lock(other, F_OFD_SETLK, F_UNLCK, 0, 0);
    all("unlocked");

    // Of whole files.
    flock(fd, LOCK_SH);
    flock(other, LOCK_SH);
    all("flock");
    of_file("fdinfo", own, fd);
    flock(other, LOCK_UN);
    flock(fd, LOCK_EX);
    fflush(stdout);
    if (!(child = fork())) {
        flock(other, LOCK_SH);
        _exit(0);
    }
    wait_for(2);
    all("a child waits for it");
    flock(fd, LOCK_UN);
    while (waitpid(child, NULL, 0) < 0) {}
    all("it has it and has ended");
    of_file("fdinfo", own, other);
    flock(other, LOCK_UN);
    child = -2;
    all("unlocked");
    close(other);

    // Leases.
    signal(SIGIO, handler);
    close(fd);
    fd = open(path, O_RDONLY);
    if (fcntl(fd, F_SETLEASE, F_RDLCK)) fail("lease");
    all("a lease");
    of_file("fdinfo", own, fd);
    int again = open(path, O_WRONLY | O_NONBLOCK);
    printf("open: %s\n", again < 0 ? strerror(errno) : "done");
    all("it is to go");
    fcntl(fd, F_SETLEASE, F_UNLCK);
    if (fcntl(fd, F_SETLEASE, F_WRLCK)) fail("lease");
    all("a lease to write");
    again = open(path, O_RDONLY | O_NONBLOCK);
    printf("open: %s\n", again < 0 ? strerror(errno) : "done");
    all("it is to become smaller");
    fcntl(fd, F_SETLEASE, F_UNLCK);
    all("none");
    close(fd);

    // Many.
    fd = open(path, O_RDWR);
    for (int i = 0; i < 5000; i++)
        if (lock(fd, F_SETLK, F_WRLCK, 2 * i, 1)) fail("lock");
    printf("many: %d\n", list("", "/proc/locks", "", 0));
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd);
    printf("of fdinfo: %d\n", list("", name, "lock:\t", 0));
    close(fd);
    printf("none: %d\n", list("", "/proc/locks", "", 0));
    unlink(path);
}

int main(void) {
    own = getpid();
    struct stat stat_of;
    if (stat("/proc/locks", &stat_of)) fail("stat");
    printf("mode %o of %d\n", stat_of.st_mode, stat_of.st_uid);
    test("/tmp/locked");
    fflush(stdout);
    pid_t user = fork();
    if (!user) {
        if (setgid(1000) || setuid(1000)) fail("setuid");
        prctl(PR_SET_DUMPABLE, 1);
        own = getpid();
        printf("to write: %s\n", open("/proc/locks", O_WRONLY) < 0 ? strerror(errno) : "done");
        test("/tmp/locked by 1000");
        exit(0);
    }
    waitpid(user, NULL, 0);
    return 0;
}
