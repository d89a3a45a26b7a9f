/* PID name spaces: numbers inside and outside, the first process of one, its orphans and its end, signals, /proc, and whose processes are seen. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *what, int result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "done");
}

static int go[2], ready[2];
static void say(int *to) { if (write(to[1], "x", 1) != 1) _exit(9); }
static void hear(int *from) { char c; if (read(from[0], &c, 1) != 1) _exit(9); }

static pid_t apart(int flags) { return syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL); }

static void ended(const char *who, pid_t pid) {
    int status = 0;
    pid_t got = waitpid(pid, &status, 0);
    if (got < 0) return tell(who, -1);
    printf("%s: %s by %d\n", who, WIFSIGNALED(status) ? "killed" : "exited", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static volatile int from = -1;
static void caught(int signal, siginfo_t *info, void *context) { (void)signal; (void)context; from = info->si_pid; }

/* Numbers that /proc lists. */
static void listed(const char *where) {
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    printf("%s:", where);
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] > '0' && entry->d_name[0] <= '9') printf(" %s", entry->d_name);
    printf("\n");
    if (dir) closedir(dir);
}

static void line(const char *path, const char *begins) {
    char text[256];
    FILE *file = fopen(path, "r");
    if (!file) return (void)printf("%s: %s\n", path, strerror(errno));
    while (fgets(text, sizeof text, file))
        if (!strncmp(text, begins, strlen(begins))) printf("%s %s", path, text);
    fclose(file);
}

static int first(pid_t outside) {
    printf("in it %d %d %ld, child of %d, group %d, session %d\n", getpid(), (int)syscall(SYS_gettid), (long)getpgid(1), getppid(), getpgrp(), getsid(0));
    tell("the one outside", kill(outside, 0));
    tell("kill of 1", kill(1, SIGKILL));
    tell("stop of 1", kill(1, SIGSTOP));
    tell("ended politely", kill(1, SIGTERM));
    struct sigaction act = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGUSR1, &act, NULL);
    pid_t child = fork();
    if (!child) {
        printf("then %d, child of %d\n", getpid(), getppid());
        kill(getppid(), SIGUSR1);
        kill(getppid(), SIGKILL);
        setsid();
        printf("session %d\n", getsid(0));
        _exit(3);
    }
    pid_t was = child;
    ended("child", child);
    printf("it was %d\n", was);
    printf("signal from %d\n", from);
    /* An orphan becomes its child. */
    child = fork();
    if (!child) {
        pid_t orphan = fork();
        if (!orphan) {
            hear(go);
            while (getppid() != 1) usleep(1000);
            printf("orphan %d of %d\n", getpid(), getppid());
            _exit(4);
        }
        _exit(0);
    }
    ended("child", child);
    say(go);
    ended("orphan", -1);
    ended("nobody", -1);
    tell("mount", mount("proc", "/proc", "proc", 0, NULL));
    listed("/proc");
    line("/proc/self/status", "Pid:");
    line("/proc/1/status", "PPid:");
    char self[32] = "";
    if (readlink("/proc/self", self, sizeof self - 1) < 0) perror("self");
    printf("self is %s\n", self);
    struct stat st;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d", outside);
    tell("the one outside", stat(path, &st));
    return 0;
}

static void tests(const char *who, int flags) {
    printf("-- %s\n", who);
    fflush(stdout);
    pid_t outside = getpid();
    pid_t pid = apart(CLONE_NEWPID | CLONE_NEWNS | flags);
    if (pid < 0) return tell("clone", -1);
    if (!pid) {
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
        _exit(first(outside));
    }
    ended("first", pid);
    /* All end with it. */
    pid = apart(CLONE_NEWPID | flags);
    if (!pid) {
        for (int i = 0; i < 3; i++)
            if (!fork()) {
                if (i == 2 && !fork()) pause();
                close(ready[0]);
                say(ready);
                pause();
            }
        for (int i = 0; i < 3; i++) hear(ready);
        close(ready[1]);
        say(go);
        pause();
    }
    hear(go);
    struct sigaction act = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGUSR1, &act, NULL);
    tell("politely from outside", kill(pid, SIGTERM));
    tell("kill from outside", kill(pid, SIGKILL));
    ended("first", pid);
    ended("nobody", -1);
    /* After unshare the next child is the first one, and without it there is no other. */
    pid = fork();
    if (!pid) {
        tell("unshare", unshare(CLONE_NEWPID | flags));
        printf("itself %s\n", getpid() == 1 ? "1" : "as before");
        fflush(stdout);
        pid = fork();
        if (!pid) {
            printf("child %d of %d\n", getpid(), getppid());
            /* One in it. */
            fflush(stdout);
            pid = apart(CLONE_NEWPID);
            if (!pid) {
                printf("deeper %d of %d\n", getpid(), getppid());
                fflush(stdout);
                _exit(6);
            }
            ended("deeper", pid);
            printf("deeper is %d here\n", pid);
            fflush(stdout);
            _exit(5);
        }
        ended("first", pid);
        tell("another", fork());
        fflush(stdout);
        _exit(0);
    }
    ended("who left", pid);
    fflush(stdout);
}

int main(void) {
    setbuf(stdout, NULL);
    if (pipe(go) || pipe(ready)) return 1;
    tests("root", 0);
    pid_t pid = fork();
    if (!pid) {
        if (setgid(1000) || setuid(1000)) return 2;
        prctl(PR_SET_DUMPABLE, 1);
        tell("a user", unshare(CLONE_NEWPID));
        tests("user", CLONE_NEWUSER);
        return 0;
    }
    ended("user", pid);
    return 0;
}
