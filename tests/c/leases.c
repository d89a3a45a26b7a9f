/* Leases: who may have which, what breaks them and when, the signals that tell, what waits; with many of them. As root and as user 1000. */
// cairn-test: time=60
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *path;
static volatile sig_atomic_t count, last_signal, last_code, last_fd;
static volatile long last_band;

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)context;
    last_signal = signal == SIGIO ? 1 : signal - SIGRTMIN + 100;
    last_code = info->si_code;
    last_fd = info->si_code > 0 && info->si_code <= 6 ? info->si_fd : -1;
    last_band = info->si_code > 0 && info->si_code <= 6 ? info->si_band : -1;
    count++;
}

static void show(const char *when) {
    printf("%s: %d", when, (int)count);
    if (count) printf(" signal %d code %d fd %d band %lx", (int)last_signal, (int)last_code, (int)last_fd, last_band);
    printf("\n");
    count = 0;
}

static void say(const char *what, long value) {
    if (value < 0) printf("%s: %s\n", what, strerror(errno));
    else printf("%s: %ld\n", what, value);
}

/* A child opens or cuts the file; its result. */
static int other(int flags, int cuts) {
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        int done = cuts ? truncate(path, 0) : open(path, flags);
        _exit(done < 0 ? errno : 0);
    }
    int status;
    while (waitpid(child, &status, 0) < 0) {}
    return WEXITSTATUS(status);
}

/* The child waits until the lease is given up. */
static pid_t begin(int flags, int cuts) {
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        // (A lease does not go as long as the child has its file open as well.)
        for (int fd = 3; fd < 20; fd++) close(fd);
        int done = cuts ? truncate(path, 0) : open(path, flags);
        _exit(done < 0 ? errno : 0);
    }
    for (int i = 0; i < 3000 && !count; i++) usleep(1000);
    return child;
}

static int end(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0) {}
    return WEXITSTATUS(status);
}

static void test_rights(void) {
    int fd = open(path, O_RDWR);
    say("read lease through a writable file", fcntl(fd, F_SETLEASE, F_RDLCK));
    say("none yet", fcntl(fd, F_GETLEASE));
    say("write lease", fcntl(fd, F_SETLEASE, F_WRLCK));
    say("is", fcntl(fd, F_GETLEASE));
    printf("own: %d\n", fcntl(fd, F_GETOWN) == getpid());
    say("given up", fcntl(fd, F_SETLEASE, F_UNLCK));
    say("again", fcntl(fd, F_SETLEASE, F_UNLCK));
    printf("own: %d\n", fcntl(fd, F_GETOWN));
    say("kind 3", fcntl(fd, F_SETLEASE, 3));
    say("kind -1", fcntl(fd, F_SETLEASE, -1));
    int second = open(path, O_RDONLY);
    say("write lease beside another", fcntl(fd, F_SETLEASE, F_WRLCK));
    close(fd);
    say("read lease", fcntl(second, F_SETLEASE, F_RDLCK));
    fd = open(path, O_RDONLY);
    say("two read leases", fcntl(fd, F_SETLEASE, F_RDLCK));
    say("no write lease then", fcntl(fd, F_SETLEASE, F_WRLCK));
    close(second);
    say("alone", fcntl(fd, F_SETLEASE, F_WRLCK));
    say("a duplicate's", fcntl(dup(fd), F_GETLEASE));
    close(fd);
    fd = open(path, O_PATH);
    say("O_PATH", fcntl(fd, F_SETLEASE, F_RDLCK));
    close(fd);
    int pipes[2];
    if (pipe(pipes)) _exit(9);
    say("pipe", fcntl(pipes[0], F_SETLEASE, F_RDLCK));
    say("pipe has", fcntl(pipes[0], F_GETLEASE));
    close(pipes[0]), close(pipes[1]);
    say("no file", fcntl(900, F_SETLEASE, F_RDLCK));
}

static void test_breaks(void) {
    close(3), close(4), close(5);
    int fd = open(path, O_RDONLY);
    say("lease", fcntl(fd, F_SETLEASE, F_RDLCK));
    printf("reader: %d\n", other(O_RDONLY, 0));
    show("not told");
    printf("writer: %s\n", strerror(other(O_WRONLY | O_NONBLOCK, 0)));
    show("told");
    say("is to be", fcntl(fd, F_GETLEASE));
    printf("writer: %s\n", strerror(other(O_WRONLY | O_NONBLOCK, 0)));
    show("not told again");
    say("given up", fcntl(fd, F_SETLEASE, F_UNLCK));
    printf("writer: %d\n", other(O_WRONLY | O_NONBLOCK, 0));
    say("signal", fcntl(fd, F_SETSIG, SIGRTMIN));
    say("lease", fcntl(fd, F_SETLEASE, F_WRLCK));
    pid_t child = begin(O_RDONLY, 0);
    show("a reader");
    say("is to be", fcntl(fd, F_GETLEASE));
    say("read lease", fcntl(fd, F_SETLEASE, F_RDLCK));
    printf("it goes on: %d\n", end(child));
    child = begin(O_RDWR, 0);
    show("a writer");
    say("not while it waits", fcntl(fd, F_SETLEASE, F_RDLCK));
    say("given up", fcntl(fd, F_SETLEASE, F_UNLCK));
    printf("it goes on: %d\n", end(child));
    say("lease", fcntl(fd, F_SETLEASE, F_RDLCK));
    say("signal later", fcntl(fd, F_SETSIG, SIGRTMIN + 1));
    child = begin(0, 1);
    show("truncate");
    close(fd);
    printf("it goes on: %d\n", end(child));
    fd = open(path, O_RDONLY);
    fcntl(fd, F_SETLEASE, F_RDLCK);
    child = begin(O_WRONLY | O_TRUNC, 0);
    show("a writer");
    kill(child, SIGKILL);
    end(child);
    say("is to be", fcntl(fd, F_GETLEASE));
    close(fd);
    fflush(stdout);
    if (!(child = fork())) {
        fd = open(path, O_RDONLY);
        fcntl(fd, F_SETLEASE, F_RDLCK);
        signal(SIGIO, SIG_DFL);
        _exit(0);
    }
    end(child);
    printf("the holder has ended: %d\n", other(O_WRONLY, 0));
}

/* One open file is its descriptors', of all processes that have it, and of the next program. */
static void test_shared(void) {
    int fd = open(path, O_RDONLY);
    say("lease", fcntl(fd, F_SETLEASE, F_RDLCK));
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        say("a child's", fcntl(fd, F_GETLEASE));
        say("made a write lease there", fcntl(fd, F_SETLEASE, F_WRLCK));
        fflush(stdout);
        _exit(0);
    }
    end(child);
    say("here, too", fcntl(fd, F_GETLEASE));
    int twin = dup(fd);
    close(fd);
    say("its twin has it", fcntl(twin, F_GETLEASE));
    printf("reader: %s\n", strerror(other(O_RDONLY | O_NONBLOCK, 0)));
    show("told");
    fflush(stdout);
    child = fork();
    if (!child) {
        say("given up there", fcntl(twin, F_SETLEASE, F_UNLCK));
        fflush(stdout);
        _exit(0);
    }
    end(child);
    say("here, too", fcntl(twin, F_GETLEASE));
    say("lease", fcntl(twin, F_SETLEASE, F_RDLCK));
    if (!(child = fork())) {
        char number[12];
        sprintf(number, "%d", twin);
        execl("/proc/self/exe", "leases", number, NULL);
        _exit(9);
    }
    printf("the next program has it: %d\n", end(child));
    child = fork();
    if (!child) {
        pause();
        _exit(0);
    }
    say("whose signal", fcntl(twin, F_SETOWN, child));
    printf("writer: %s\n", strerror(other(O_WRONLY | O_NONBLOCK, 0)));
    say("given up", fcntl(twin, F_SETLEASE, F_UNLCK));
    usleep(1000);
    kill(child, SIGKILL);
    end(child);
    show("not told");
    close(twin);
}

/* What is no opening breaks nothing. */
static void test_others(void) {
    int fd = open(path, O_RDWR);
    say("lease", fcntl(fd, F_SETLEASE, F_WRLCK));
    struct stat status;
    say("stat", stat(path, &status));
    int named = open(path, O_PATH);
    close(named);
    say("its own length", ftruncate(fd, 10));
    say("mode", chmod(path, 0640));
    char name[64];
    snprintf(name, sizeof name, "%s-renamed", path);
    say("renamed", rename(path, name));
    say("and back", rename(name, path));
    show("not told");
    printf("itself: %s\n", open(path, O_RDONLY | O_NONBLOCK) < 0 ? strerror(errno) : "open");
    show("told");
    say("is to be", fcntl(fd, F_GETLEASE));
    printf("writer: %s\n", strerror(other(O_RDWR | O_NONBLOCK, 0)));
    show("told once more");
    say("is to be", fcntl(fd, F_GETLEASE));
    say("a read lease is not enough", fcntl(fd, F_SETLEASE, F_RDLCK));
    close(fd);
    fd = open(path, O_RDONLY);
    say("lease", fcntl(fd, F_SETLEASE, F_RDLCK));
    printf("cut while opened for reading: %s\n", strerror(other(O_RDONLY | O_TRUNC | O_NONBLOCK, 0)));
    show("so");
    close(fd);
    if (!getuid()) return;
    chmod(path, 0);
    printf("who may not: %s\n", strerror(other(O_RDONLY | O_NONBLOCK, 0)));
    show("not told");
    chmod(path, 0600);
}

static void test_many(void) {
    struct rlimit limit = {1200, 1200};
    setrlimit(RLIMIT_NOFILE, &limit);
    int had = 0;
    for (int i = 0; i < 1000; i++) {
        int fd = open(path, O_RDONLY);
        if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) had++;
        else if (had == i) printf("lease %d: %s\n", i, strerror(errno));
    }
    printf("many: %d\n", had);
    printf("writer: %s\n", strerror(other(O_WRONLY | O_NONBLOCK, 0)));
    printf("told: %d\n", count > 0);
    for (int fd = 3; fd < 1100; fd++) close(fd);
    printf("writer: %d\n", other(O_WRONLY, 0));
    count = 0;
}

/* How long openers wait is the system administrator's to say. */
static void test_time(void) {
    const char *setting = "/proc/sys/fs/lease-break-time";
    char before[16] = "";
    int file = open(setting, O_RDWR);
    say("read", read(file, before, sizeof before - 1));
    printf("at first: %s", before);
    say("written", pwrite(file, "1\n", 2, 0));
    path = "/tmp/leases-time";
    close(open(path, O_CREAT | O_RDWR, 0600));
    int fd = open(path, O_RDONLY);
    say("lease", fcntl(fd, F_SETLEASE, F_WRLCK));
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    printf("reader: %d\n", other(O_RDONLY, 0));
    say("a read lease now", fcntl(fd, F_GETLEASE));
    printf("writer: %d\n", other(O_RDWR, 0));
    say("none now", fcntl(fd, F_GETLEASE));
    clock_gettime(CLOCK_MONOTONIC, &now);
    long passed = (now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000;
    printf("two seconds or some more: %d\n", passed >= 1900 && passed < 20000);
    if (passed < 1900 || passed >= 20000) printf("%ld ms\n", passed);
    show("told");
    say("put back", pwrite(file, before, strlen(before), 0));
    close(fd), close(file);
    unlink(path);
}

static void test_all(const char *name) {
    path = name;
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    close(fd);
    test_rights();
    test_breaks();
    test_shared();
    test_others();
    test_many();
    unlink(path);
}

int main(int argc, char **argv) {
    if (argc > 1) return fcntl(atoi(argv[1]), F_GETLEASE);
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGIO, &action, NULL);
    sigaction(SIGRTMIN, &action, NULL);
    sigaction(SIGRTMIN + 1, &action, NULL);
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    int roots = open("/tmp/leases-root", O_CREAT | O_RDWR, 0666);
    chmod("/tmp/leases-root", 0666);
    test_all("/tmp/leases-0");
    int folder = open("/tmp", O_RDONLY | O_DIRECTORY);
    say("folder", fcntl(folder, F_SETLEASE, F_RDLCK));
    close(folder), close(roots);
    test_time();
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        if (setgid(1000) || setuid(1000)) _exit(9);
        test_all("/tmp/leases-1000");
        say("time of leases", open("/proc/sys/fs/lease-break-time", O_RDWR));
        int fd = open("/tmp/leases-root", O_RDONLY);
        say("root's file", fcntl(fd, F_SETLEASE, F_RDLCK));
        say("root's file has", fcntl(fd, F_GETLEASE));
        fflush(stdout);
        _exit(0);
    }
    printf("user: %d\n", end(child));
    unlink("/tmp/leases-root");
    puts("end");
    return 0;
}
