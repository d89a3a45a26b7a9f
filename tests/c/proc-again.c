/* A file of /proc that stays open is made anew when its beginning is read again, as top and vmstat do; what is read in pieces fits together; of a process that is gone: ESRCH. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void say(const char *what, int fd, off_t at, size_t most) {
    char text[4096];
    ssize_t length = at < 0 ? read(fd, text, most) : pread(fd, text, most, at);
    if (length < 0)
        printf("%s: %s\n", what, strerror(errno));
    else
        printf("%s: %.*s\n", what, (int)strcspn(text, "\n") < length ? (int)strcspn(text, "\n") : (int)length, text);
}

/* The call that a thread is in when it asks for its own: read(2) or pread(2), with these arguments. */
static void own_call(const char *path) {
    char text[256] = "", wanted[128];
    int fd = open(path, O_RDONLY);
    long got = syscall(SYS_read, fd, text, sizeof text - 1);
    snprintf(wanted, sizeof wanted, "%ld %#lx %#lx %#lx ", (long)SYS_read, (long)fd, (long)text, (long)sizeof text - 1);
    printf("%s, read: %d\n", path, got > 0 && !strncmp(text, wanted, strlen(wanted)));
    memset(text, 0, sizeof text);
    got = syscall(SYS_pread64, fd, text, sizeof text - 1, 0L);
    snprintf(wanted, sizeof wanted, "%ld %#lx %#lx %#lx 0x0 ", (long)SYS_pread64, (long)fd, (long)text, (long)sizeof text - 1);
    printf("%s, pread: %d\n", path, got > 0 && !strncmp(text, wanted, strlen(wanted)));
    close(fd);
}

static void *thread(void *none) {
    own_call("/proc/thread-self/syscall");
    return none;
}

int main(void) {
    own_call("/proc/self/syscall");
    pthread_t other_thread;
    pthread_create(&other_thread, NULL, thread, NULL);
    pthread_join(other_thread, NULL);
    fflush(stdout);
    pid_t user = fork();
    if (!user) {
        if (setresuid(1000, 1000, 1000) || prctl(PR_SET_DUMPABLE, 1)) _exit(1);
        own_call("/proc/self/syscall");
        int first = open("/proc/1/syscall", O_RDONLY);
        printf("of the first process: %s\n", first < 0 ? strerror(errno) : "open");
        fflush(stdout);
        _exit(0);
    }
    waitpid(user, NULL, 0);

    int name = open("/proc/self/comm", O_RDONLY);
    prctl(PR_SET_NAME, "first");
    say("before it is read", name, -1, 2);
    prctl(PR_SET_NAME, "later");
    say("the rest", name, -1, 100);
    lseek(name, 0, SEEK_SET);
    say("again", name, -1, 100);
    prctl(PR_SET_NAME, "third");
    say("pread", name, 0, 100);

    int uptime = open("/proc/uptime", O_RDONLY);
    char text[100] = "";
    double before = 0, now = 0;
    for (int i = 0; i < 2000 && now < before + 0.03; i++) {
        struct timespec ms = {0, 1000000};
        nanosleep(&ms, NULL);
        if (pread(uptime, text, sizeof text - 1, 0) <= 0) return 1;
        now = atof(text);
        if (!before) before = now;
    }
    printf("time goes on: %d\n", now > before);

    int out[2];
    if (pipe(out)) return 1;
    pid_t pid = fork();
    if (pid == 0) {
        close(out[1]);
        read(out[0], text, 1);
        _exit(0);
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    int other = open(path, O_RDONLY);
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    int status = open(path, O_RDONLY);
    say("of another", other, 0, 100);
    printf("its status: %d\n", pread(status, text, 20, 0) == 20);
    close(out[1]);
    waitpid(pid, NULL, 0);
    say("of one that is gone", other, 0, 100);
    say("and its status", status, 0, 100);
    return 0;
}
