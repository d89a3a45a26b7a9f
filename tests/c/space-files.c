/* What a name space's file tells (ioctl_ns(2)): the user name space that it was made in, the one above it, who made it, its kind; and /proc/loadavg in a PID name space. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USERNS = 0xb701, PARENT, TYPE, OWNER };

static void tell(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "done");
    fflush(stdout);
}

static pid_t apart(int flags) { return syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL); }

static int file_of(pid_t pid, const char *kind) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, kind);
    return open(path, O_RDONLY);
}

static int is(int file, pid_t pid, const char *kind) {
    struct stat one, other;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, kind);
    return !fstat(file, &one) && !stat(path, &other) && one.st_ino == other.st_ino && one.st_dev == other.st_dev;
}

static pid_t waits(int flags) {
    pid_t child = apart(flags);
    if (!child)
        for (;;) pause();
    return child;
}

static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void relations(void) {
    static const char *kinds[] = {"mnt", "uts", "ipc", "pid", "user", "cgroup", "net"};
    pid_t child = waits(CLONE_NEWUSER | CLONE_NEWUTS | CLONE_NEWPID | CLONE_NEWIPC);
    unsigned uid;
    for (int i = 0; i < 7; i++) {
        int file = file_of(child, kinds[i]), made = ioctl(file, USERNS);
        printf("%s, kind %x, made in its %d, in ours %d\n", kinds[i], ioctl(file, TYPE), is(made, child, "user"), is(made, getpid(), "user"));
        tell("made in", made);
        if (made >= 0) printf("kind %x, flags %x, %x\n", ioctl(made, TYPE), fcntl(made, F_GETFL) & ~0x8000, fcntl(made, F_GETFD));
        int above = ioctl(file, PARENT);
        tell("above", above);
        if (above >= 0) printf("ours %d\n", is(above, getpid(), kinds[i]));
        if (above >= 0) tell("above that", ioctl(above, PARENT));
        int owner = ioctl(file, OWNER, &uid);
        tell("owner", owner);
        if (!owner) printf("%u\n", uid);
        if (!owner) tell("nowhere", ioctl(file, OWNER, NULL));
        close(file);
        close(made);
        close(above);
    }
    /* What is kept by a file only. */
    int file = file_of(child, "uts");
    end(child);
    int made = ioctl(file, USERNS);
    close(file);
    tell("of who is gone", made);
    int above = ioctl(made, PARENT);
    printf("ours %d\n", is(above, getpid(), "user"));
    tell("above ours", ioctl(above, PARENT));
    tell("the first one's owner", ioctl(above, OWNER, &uid));
    printf("%u\n", uid);
    tell("other requests", ioctl(made, 0xb705));
    if (!apart(CLONE_NEWUSER)) {
        tell("from beside it", ioctl(made, USERNS));
        tell("owner from beside it", ioctl(made, OWNER, &uid));
        printf("%u\n", uid);
        tell("the outer one's", ioctl(above, USERNS));
        _exit(0);
    }
    waitpid(-1, NULL, 0);
    int other = open("/dev/null", O_RDONLY);
    tell("of no name space", ioctl(other, USERNS));
    other = open("/proc/uptime", O_RDONLY);
    tell("of another file", ioctl(other, PARENT));
    other = open("/proc/self/ns/uts", O_PATH);
    tell("by a path", ioctl(other, USERNS));
}

static int wrong;
static void *asks(void *file) {
    for (int i = 0; i < 200; i++) {
        int made = ioctl(*(int *)file, USERNS);
        wrong |= made < 0 || ioctl(made, TYPE) != CLONE_NEWUSER;
        close(made);
    }
    return NULL;
}

static void threads(void) {
    pid_t child = waits(CLONE_NEWUSER | CLONE_NEWUTS);
    int file = file_of(child, "uts");
    pthread_t all[4];
    for (int i = 0; i < 4; i++) pthread_create(&all[i], NULL, asks, &file);
    for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
    end(child);
    printf("by four threads: %s\n", wrong ? "wrong" : "right");
}

static void last(void) {
    char text[128] = "";
    int file = open("/proc/loadavg", O_RDONLY);
    if (read(file, text, sizeof text - 1) < 0) _exit(1);
    close(file);
    char *space = strrchr(text, ' ');
    printf("the last number:%s", space ? space : "none\n");
    fflush(stdout);
}

static void numbers(void) {
    pid_t child = apart(CLONE_NEWPID | (getuid() ? CLONE_NEWUSER : 0));
    if (!child) {
        last();
        for (int i = 0; i < 2; i++) {
            if (!fork()) _exit(0);
            wait(NULL);
            last();
        }
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(void) {
    for (int i = 0; i < 2; i++) {
        if (i && (setresuid(1000, 1000, 1000) || prctl(PR_SET_DUMPABLE, 1))) return 1;
        printf("user %d\n", getuid());
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            relations();
            threads();
            numbers();
            return 0;
        }
        waitpid(child, NULL, 0);
    }
    return 0;
}
