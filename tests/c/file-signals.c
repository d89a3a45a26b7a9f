/* Signals of files: F_SETOWN, F_SETOWN_EX, F_SETSIG and O_ASYNC; who gets which signal when, and what it says. */
// cairn-test: time=30
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t count, last_signal, last_code, last_fd;
static volatile long last_band;
static volatile pid_t last_thread;

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    fflush(stdout);
    _exit(9);
}

static const char *result(long value) {
    return value >= 0 ? "ok" : strerror(errno);
}

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)context;
    last_signal = signal == SIGIO ? 1 : signal - SIGRTMIN + 100;
    last_code = info->si_code;
    last_fd = info->si_code > 0 && info->si_code <= 6 ? info->si_fd : -1;
    last_band = info->si_code > 0 && info->si_code <= 6 ? info->si_band : -1;
    last_thread = syscall(SYS_gettid);
    count++;
}

static void show(const char *when) {
    printf("%s: %d", when, (int)count);
    if (count)
        printf(" signal %d code %d fd %d band %lx", (int)last_signal, (int)last_code, (int)last_fd, last_band);
    printf("\n");
    count = 0;
}

static void catch_all(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGIO, &action, NULL);
    sigaction(SIGRTMIN, &action, NULL);
    sigaction(SIGRTMIN + 1, &action, NULL);
}

static void set_async(int fd, int on) {
    int flags = fcntl(fd, F_GETFL);
    if (fcntl(fd, F_SETFL, on ? flags | O_ASYNC : flags & ~O_ASYNC))
        fail("O_ASYNC");
}

static void put(int fd) {
    if (write(fd, "x", 1) != 1)
        fail("write");
}

static void take(int fd) {
    char bytes[64];
    if (read(fd, bytes, sizeof bytes) < 0)
        fail("read");
}

static void test_settings(int fd) {
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = syscall(SYS_gettid)};
    printf("owner at first: %d, signal %d\n", fcntl(fd, F_GETOWN), fcntl(fd, F_GETSIG));
    printf("own: %s", result(fcntl(fd, F_SETOWN, getpid())));
    printf(", is %d\n", fcntl(fd, F_GETOWN) == getpid());
    printf("group: %s", result(fcntl(fd, F_SETOWN, -getpgrp())));
    printf(", is %d\n", fcntl(fd, F_GETOWN) == -getpgrp());
    printf("thread: %s", result(fcntl(fd, F_SETOWN_EX, &owner)));
    memset(&owner, 0, sizeof owner);
    printf(", %s, is %d %d\n", result(fcntl(fd, F_GETOWN_EX, &owner)), owner.type, owner.pid == syscall(SYS_gettid));
    owner.type = 3;
    printf("wrong kind: %s\n", result(fcntl(fd, F_SETOWN_EX, &owner)));
    owner = (struct f_owner_ex){.type = F_OWNER_PID, .pid = 3999999};
    printf("nobody: %s, %s, %s\n", result(fcntl(fd, F_SETOWN_EX, &owner)), result(fcntl(fd, F_SETOWN, 3999999)), result(fcntl(fd, F_SETOWN, -3999999)));
    printf("least: %s\n", result(syscall(SYS_fcntl, fd, F_SETOWN, INT_MIN)));
    printf("no memory: %s, %s\n", result(fcntl(fd, F_SETOWN_EX, (void *)1)), result(fcntl(fd, F_GETOWN_EX, (void *)1)));
    printf("signals: %s", result(fcntl(fd, F_SETSIG, 65)));
    printf(", %s", result(fcntl(fd, F_SETSIG, -1)));
    printf(", %s", result(fcntl(fd, F_SETSIG, SIGRTMIN)));
    printf(", is %d\n", fcntl(fd, F_GETSIG) == SIGRTMIN);
    printf("none again: %s", result(fcntl(fd, F_SETSIG, 0)));
    printf(", %s", result(fcntl(fd, F_SETOWN, 0)));
    printf(", %d\n", fcntl(fd, F_GETOWN));
    int closed = dup(fd);
    close(closed);
    printf("closed: %s\n", result(fcntl(closed, F_SETOWN, getpid())));
}

static void test_pipe(void) {
    int pair[2];
    if (pipe(pair))
        fail("pipe");
    test_settings(pair[0]);
    set_async(pair[0], 1);
    printf("flags: %o\n", fcntl(pair[0], F_GETFL));
    put(pair[1]);
    show("nobody's");
    fcntl(pair[0], F_SETOWN, getpid());
    show("owned");
    put(pair[1]);
    show("written");
    put(pair[1]);
    show("written again");
    take(pair[0]);
    show("read");
    fcntl(pair[0], F_SETSIG, SIGRTMIN);
    put(pair[1]);
    show("with its signal");
    set_async(pair[0], 0);
    put(pair[1]);
    printf("flags: %o\n", fcntl(pair[0], F_GETFL));
    show("off");
    take(pair[0]);
    int on = 1;
    printf("by ioctl: %s\n", result(ioctl(pair[0], FIOASYNC, &on)));
    put(pair[1]);
    show("on");
    take(pair[0]);
    /* Another descriptor of the same open file is it too. */
    int other = dup(pair[0]);
    close(pair[0]);
    put(pair[1]);
    printf("by dup: %d\n", (int)count);
    count = 0;
    take(other);
    close(pair[1]);
    show("other end closed");
    close(other);
}

static void test_sockets(void) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        fail("socketpair");
    int owner = getpid();
    printf("FIOSETOWN: %s", result(ioctl(pair[0], FIOSETOWN, &owner)));
    owner = 0;
    printf(", %s, %d\n", result(ioctl(pair[0], FIOGETOWN, &owner)), owner == getpid());
    fcntl(pair[0], F_SETSIG, SIGRTMIN + 1);
    set_async(pair[0], 1);
    count = 0;
    put(pair[1]);
    printf("socket: %d, signal %d, code %d\n", count > 0, (int)last_signal, (int)last_code);
    count = 0;
    take(pair[0]);
    close(pair[0]);
    close(pair[1]);
    show("closed");
}

static int shared[2];
static pid_t thread_id;
static volatile int thread_ready, thread_done;

static void *in_thread(void *unused) {
    (void)unused;
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = syscall(SYS_gettid)};
    thread_id = owner.pid;
    if (fcntl(shared[0], F_SETOWN_EX, &owner))
        fail("thread");
    thread_ready = 1;
    while (!thread_done)
        usleep(1000);
    return NULL;
}

static void test_thread(void) {
    pthread_t thread;
    if (pipe(shared))
        fail("pipe");
    set_async(shared[0], 1);
    pthread_create(&thread, NULL, in_thread, NULL);
    while (!thread_ready)
        usleep(1000);
    put(shared[1]);
    for (int i = 0; i < 1000 && !count; i++)
        usleep(1000);
    printf("thread: %d, its own %d\n", (int)count, last_thread == thread_id);
    count = 0;
    thread_done = 1;
    pthread_join(thread, NULL);
    close(shared[0]);
    close(shared[1]);
}

/* A child that is the owner; and one of another user, who is not sent anything by us. */
static void test_others(void) {
    int pair[2], ready[2];
    char byte;
    for (int stranger = 0; stranger < 2; stranger++) {
        if (pipe(pair) || pipe(ready))
            fail("pipe");
        pid_t child = fork();
        if (child == 0) {
            if (!stranger && (setgid(1000) || setuid(1000)))
                fail("setuid");
            close(pair[1]);
            put(ready[1]);
            for (int i = 0; i < 300 && !count; i++)
                usleep(1000);
            _exit(count);
        }
        if (read(ready[0], &byte, 1) != 1)
            fail("child");
        pid_t parent = stranger ? fork() : 0;
        if (stranger == 0 || parent == 0) {
            if (stranger && (setgid(1000) || setuid(1000)))
                fail("setuid");
            fcntl(pair[0], F_SETOWN, child);
            set_async(pair[0], 1);
            put(pair[1]);
            if (stranger)
                _exit(0);
        }
        int status;
        if (parent > 0)
            waitpid(parent, NULL, 0);
        waitpid(child, &status, 0);
        printf("%s: %d\n", stranger ? "for a stranger" : "for a child", WEXITSTATUS(status));
        close(pair[0]);
        close(pair[1]);
        close(ready[0]);
        close(ready[1]);
    }
}

/* A child has the file with its owner, who is its parent still. */
static void test_inherited(void) {
    int pair[2];
    if (pipe(pair))
        fail("pipe");
    fcntl(pair[0], F_SETOWN, getpid());
    set_async(pair[0], 1);
    count = 0;
    pid_t child = fork();
    if (child == 0) {
        put(pair[1]);
        usleep(10000);
        _exit(count);
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        ;
    printf("inherited: parent %d, child %d\n", (int)count, WEXITSTATUS(status));
    count = 0;
    close(pair[0]);
    close(pair[1]);
}

/* Each of many files has its own signals. */
static void test_many(void) {
    struct rlimit limit = {1200, 1200};
    setrlimit(RLIMIT_NOFILE, &limit);
    int first = -1, had = 0;
    for (int i = 0; i < 500; i++) {
        int ends[2];
        if (pipe(ends) || fcntl(ends[0], F_SETOWN, getpid()) || fcntl(ends[0], F_SETFL, O_ASYNC))
            break;
        if (i == 0)
            first = ends[0];
        had++;
    }
    printf("many: %d\n", had);
    count = 0;
    if (write(first + 1, "x", 1) != 1 || write(first + 2 * 499 + 1, "x", 1) != 1)
        fail("many");
    for (int i = 0; i < 1000 && count < 2; i++)
        usleep(1000);
    show("the first and the last");
    for (int i = 0; i < 500; i++)
        close(first + 2 * i), close(first + 2 * i + 1);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    catch_all();
    test_pipe();
    test_sockets();
    test_thread();
    test_others();
    test_inherited();
    test_many();
    int file = open("/tmp/file-signals", O_RDWR | O_CREAT, 0600);
    printf("a file: %s, flags %o\n", result(fcntl(file, F_SETFL, O_ASYNC)), fcntl(file, F_GETFL) & O_ASYNC);
    close(file);
    unlink("/tmp/file-signals");
    return 0;
}
