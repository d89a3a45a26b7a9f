/* Groups of processes that are limited in time: a spinning program with a fifth of the processor has a fifth of it, alone, with many threads and processes, and
if it forks all the time or has a server
   work for it; a frozen group does not run, whatever it does, and nobody is told that it is stopped; too much memory makes slow.
   (The Linux that the tests boot has no groups.) cairn-test: linux=no */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROOT "/sys/fs/cgroup"
#define GROUP ROOT "/job"
enum { MIB = 1 << 20, USER = 1000 };
static int failed;
static volatile long *counter;

static void expect_at(int line, const char *what, long got, int errno_wanted, long wanted) {
    int error = got == -1 ? errno : 0;
    if (got != wanted || error != errno_wanted) {
        printf("%d: %s: %ld (%s), not %ld (%s)\n", line, what, got, strerror(error), wanted, strerror(errno_wanted));
        failed = 1;
    }
}
#define expect(what, error) expect_at(__LINE__, #what, (long)(what), error, (error) ? -1 : 0)
#define is(what, value) expect_at(__LINE__, #what, (long)(what), 0, value)

static int put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_TRUNC);
    if (fd < 0) return -1;
    int done = write(fd, text, strlen(text)), error = errno;
    close(fd);
    errno = error;
    return done < 0 ? -1 : 0;
}
static char *get(const char *path) {
    static char text[4096];
    int fd = open(path, O_RDONLY), n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    return text;
}
static int says(const char *path, const char *text) { return strcmp(get(path), text) == 0; }
/* The number behind a name in a file. */
static long number(const char *path, const char *name) {
    char line[64], *at = get(path);
    snprintf(line, sizeof line, "%s ", name);
    while (at && strncmp(at, line, strlen(line)) != 0) at = (at = strchr(at, '\n')) ? at + 1 : NULL;
    return at ? strtol(at + strlen(line), NULL, 10) : -2;
}
static long now_us(void) {
    struct timespec it;
    clock_gettime(CLOCK_MONOTONIC, &it);
    return it.tv_sec * 1000000 + it.tv_nsec / 1000;
}

static void *spin(void *unused) {
    for (;;) ++*counter;
    return unused;
}
static void spins(void) { spin(NULL); }
static void spins_in_threads(void) {
    pthread_t thread;
    for (int i = 0; i < 8; i++) pthread_create(&thread, NULL, spin, NULL);
    pause();
}
static void spins_in_processes(void) {
    for (int i = 0; i < 8; i++)
        if (fork() == 0) spin(NULL);
    pause();
}
/* A child that goes on in its parent's place, and so on. */
static void forks(void) {
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        pid_t child = fork();
        for (int i = 0; i < 100000; i++) ++*counter;
        if (child > 0) _exit(0);
    }
}
static void asks_servers(void) {
    struct stat it;
    for (;;) stat("/dev/null", &it), ++*counter;
}
/* As many as there may be, which begin anew all the time. */
static void bombs(void) {
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        ++*counter;
        if (fork() < 0 && *counter % 64 == 0) _exit(0);
    }
}

/* A child in the group, of an ordinary user. */
static pid_t starts(void (*what)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (put(GROUP "/cgroup.procs", "0")) _exit(100 + errno);
        if (setresgid(USER, USER, USER) || setresuid(USER, USER, USER)) _exit(98);
        what();
        _exit(0);
    }
    return child;
}
static void ends(pid_t child) {
    int status = 0;
    expect(put(GROUP "/cgroup.kill", "1"), 0);
    is(waitpid(child, &status, 0), child);
    for (int i = 0; i < 200 && number(GROUP "/cgroup.events", "populated") != 0; i++) usleep(10000);
    is(number(GROUP "/cgroup.events", "populated"), 0);
}

/* What share of a core, in hundredths, the group has for so many ms. */
static long share(const char *what, void (*program)(void), int ms, long least, long most) {
    *counter = 0;
    pid_t child = starts(program);
    while (*counter == 0) usleep(1000);
    long from = now_us(), before = number(GROUP "/cpu.stat", "usage_usec");
    usleep(ms * 1000);
    long used = number(GROUP "/cpu.stat", "usage_usec") - before, time = now_us() - from;
    long part = (used * 100 + time / 2) / time;
    ends(child);
    if (part < least || part > most) {
        printf("%s: %ld %%, not %ld to %ld\n%s", what, part, least, most, get(GROUP "/cpu.stat"));
        failed = 1;
    }
    return part;
}

static int state(void) { return number(GROUP "/cgroup.events", "frozen"); }
/* Whether nothing of it runs for some time. */
static int stands(void) {
    long before = *counter;
    usleep(150000);
    return *counter == before;
}
static void freezes(const char *what, void (*program)(void)) {
    *counter = 0;
    pid_t child = starts(program);
    while (*counter == 0) usleep(1000);
    expect(put(GROUP "/cgroup.freeze", "1"), 0);
    for (int i = 0; i < 200 && state() != 1; i++) usleep(1000);
    is(state(), 1);
    if (!stands()) {
        printf("%s runs though it is frozen\n", what);
        failed = 1;
    }
    /* Nobody is told, and SIGCONT does nothing. */
    int status;
    is(waitpid(child, &status, WNOHANG | WUNTRACED | WCONTINUED) > 0, 0);
    kill(child, SIGCONT);
    is(stands(), 1);
    expect(put(GROUP "/cgroup.freeze", "0"), 0);
    is(state(), 0);
    /* It goes on; how soon, and whether in each moment, is not told. */
    int goes_on = 0;
    for (int i = 0; i < 500 && !goes_on; i++) goes_on = !stands();
    is(goes_on, 1);
    /* It can be ended as it is. */
    expect(put(GROUP "/cgroup.freeze", "1"), 0);
    ends(child);
    expect(put(GROUP "/cgroup.freeze", "0"), 0);
}

static void touches(void) {
    char *memory = mmap(NULL, 20 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int at = 0; at < 20 * MIB; at += 4096) memory[at] = 1;
    for (;;) ++*counter;
}

int main(void) {
    alarm(90);
    setvbuf(stdout, NULL, _IOLBF, 0);
    counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    mkdir(ROOT, 0755);
    expect(mount("cgroup2", ROOT, "cgroup2", 0, NULL), 0);
    is(number(ROOT "/cpu.stat", "usage_usec") > 0, 1);
    expect(mkdir(GROUP, 0755), 0);
    is(access(GROUP "/cpu.max", F_OK) != 0 && access(GROUP "/cpu.stat", F_OK) == 0, 1);
    is(number(GROUP "/cpu.stat", "nr_periods"), -2);
    expect(put(ROOT "/cgroup.subtree_control", "+cpu +memory +pids"), 0);
    is(says(GROUP "/cpu.max", "max 100000\n") && says(GROUP "/cpu.weight", "100\n") && says(GROUP "/cpu.weight.nice", "0\n"), 1);
    is(says(GROUP "/cpu.stat", "usage_usec 0\nuser_usec 0\nsystem_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\nnr_bursts 0\nburst_usec 0\n"), 1);
    is(says(GROUP "/memory.high", "max\n") && says(GROUP "/cgroup.freeze", "0\n"), 1);
    expect(put(GROUP "/cpu.max", "999"), EINVAL);
    expect(put(GROUP "/cpu.max", "20000 2000000"), EINVAL);
    expect(put(GROUP "/cpu.weight", "0"), ERANGE);
    expect(put(GROUP "/cpu.weight", "10001"), ERANGE);
    expect(put(GROUP "/cpu.weight.nice", "20"), ERANGE);
    expect(put(GROUP "/cgroup.freeze", "2"), ERANGE);
    expect(put(GROUP "/cgroup.freeze", "x"), EINVAL);

    /* A fifth. */
    expect(put(GROUP "/cpu.max", "20000"), 0);
    is(says(GROUP "/cpu.max", "20000 100000\n"), 1);
    share("spinning", spins, 1500, 17, 23);
    is(number(GROUP "/cpu.stat", "nr_periods") >= 14, 1);
    is(number(GROUP "/cpu.stat", "nr_throttled") >= 12, 1);
    is(number(GROUP "/cpu.stat", "throttled_usec") >= 800000, 1);
    share("eight threads", spins_in_threads, 1000, 17, 23);
    share("eight processes", spins_in_processes, 1000, 17, 23);
    share("forking", forks, 1500, 15, 24);
    share("asking", asks_servers, 1000, 17, 23);
    expect(put(GROUP "/cpu.max", "2000 10000"), 0);
    share("short periods", spins, 1000, 15, 25);
    /* A group below has no more than the one above gives. */
    expect(put(GROUP "/cpu.max", "max"), 0);
    share("without a limit", spins, 500, 80, 100);

    /* Frozen. */
    freezes("a spinning program", spins);
    freezes("one with threads", spins_in_threads);
    expect(put(GROUP "/pids.max", "120"), 0);
    freezes("a fork bomb", bombs);
    expect(put(GROUP "/pids.max", "max"), 0);

    /* Slowed. */
    expect(put(GROUP "/memory.high", "16M"), 0);
    share("too much memory", touches, 1000, 0, 40);
    is(number(GROUP "/memory.events", "high") > 0, 1);
    is(number(GROUP "/memory.events", "oom_kill"), 0);
    is(strtol(get(GROUP "/memory.peak"), NULL, 10) >= 20 * MIB, 1);

    expect(rmdir(GROUP), 0);
    expect(umount(ROOT), 0);
    puts(failed ? "failed" : "all as it should be");
    return failed;
}
