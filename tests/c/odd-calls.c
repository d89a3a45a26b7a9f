/* Calls in unusual circumstances: mremap of no length, select of numbers that no descriptor can have, a terminal that a session's member gives up, times of a
   pipe, the root of a mount, turns of SCHED_RR, what is told of stops. */
// cairn-test: time=30
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

static const char *result(long value) {
    return value >= 0 ? "ok" : strerror(errno);
}

static void end(int status) {
    fflush(stdout);
    _exit(status);
}

/* A second place for shared memory, and none for private memory. */
static void test_mremap(void) {
    char *shared = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared + PAGE, 'a', PAGE);
    char *second = mremap(shared + PAGE, 0, 2 * PAGE, MREMAP_MAYMOVE);
    printf("mremap 0, shared: %s\n", second == MAP_FAILED ? strerror(errno) : "ok");
    if (second != MAP_FAILED) {
        second[0] = 'b';
        second[PAGE] = 'c';
        printf("  elsewhere %d, the same memory %d %d, reads %c\n", second != shared + PAGE, shared[PAGE] == 'b', shared[2 * PAGE] == 'c', second[1]);
        printf("  the first goes: %s, the second stays: %c\n", result(munmap(shared, 4 * PAGE)), second[0]);
        munmap(second, 2 * PAGE);
    }
    char *private = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("mremap 0, private: %s\n", mremap(private, 0, PAGE, MREMAP_MAYMOVE) == MAP_FAILED ? strerror(errno) : "ok");
    printf("mremap 0, without MAYMOVE: %s\n", mremap(private, 0, PAGE, 0) == MAP_FAILED ? strerror(errno) : "ok");
    munmap(private, 2 * PAGE);
    printf("mremap 0, nothing there: %s\n", mremap(private, 0, PAGE, MREMAP_MAYMOVE) == MAP_FAILED ? strerror(errno) : "ok");
    shared = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    printf("mremap 0, shared, without MAYMOVE: %s\n", mremap(shared, 0, PAGE, 0) == MAP_FAILED ? strerror(errno) : "ok");
    char *place = mmap(0, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    second = mremap(shared, 0, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    shared[3] = 'x';
    printf("mremap 0, shared, at a place: %s", second == MAP_FAILED ? strerror(errno) : "ok");
    printf(" %d\n", second == place && second[3] == 'x');
    /* A file's. */
    char name[] = "mremap-file-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    ftruncate(file, 3 * PAGE);
    pwrite(file, "second page", 11, PAGE);
    char *mapped = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    second = mremap(mapped + PAGE, 0, PAGE, MREMAP_MAYMOVE);
    printf("mremap 0, of a file: %s, `%.11s`\n", second == MAP_FAILED ? strerror(errno) : "ok", second == MAP_FAILED ? "" : second);
    if (second != MAP_FAILED) {
        memcpy(second, "SECOND", 6);
        msync(second, PAGE, MS_SYNC);
        char back[12] = "";
        pread(file, back, 11, PAGE);
        printf("  read back `%s`\n", back);
    }
    mapped = mmap(0, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
    printf("mremap 0, private of a file: %s\n", mremap(mapped, 0, PAGE, MREMAP_MAYMOVE) == MAP_FAILED ? strerror(errno) : "ok");
    close(file);
}

static void test_select(void) {
    struct timeval none = {0, 0};
    static fd_set sets[4];
    int ends[2];
    pipe(ends);
    FD_SET(300, sets);
    printf("select of a closed number: %s\n", result(select(301, sets, NULL, NULL, &none)));
    memset(sets, 0, sizeof sets);
    FD_SET(900, sets);
    printf("select of a number above those that were open: %s\n", result(select(901, NULL, sets, NULL, &none)));
    memset(sets, 0, sizeof sets);
    ((unsigned char *)sets)[2000 / 8] = 1;
    printf("select of a number above the limit: %s\n", result(select(2001, sets, NULL, NULL, &none)));
    memset(sets, 0, sizeof sets);
    ((unsigned char *)sets)[2000 / 8] = 1;
    FD_SET(ends[1], sets);
    printf("  beside one that is ready: %s\n", result(select(2001, NULL, sets, NULL, &none)));
    memset(sets, 0, sizeof sets);
    FD_SET(ends[1], sets);
    printf("select of many, of which one is there: %d\n", select(2001, NULL, sets, NULL, &none));
    printf("select of a negative count: %s\n", result(select(-1, NULL, NULL, NULL, &none)));
    close(ends[0]);
    close(ends[1]);
}

/* A member of a session, which is not its leader, gives up its terminal. */
static void test_terminal(void) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(master);
    unlockpt(master);
    fflush(stdout);
    pid_t leader = fork();
    if (leader == 0) {
        signal(SIGHUP, SIG_IGN);
        setsid();
        int line = open(ptsname(master), O_RDWR);
        printf("the leader's: session %d\n", tcgetsid(line) == getpid());
        fflush(stdout);
        pid_t member = fork();
        if (member == 0) {
            int own = open("/dev/tty", O_RDWR);
            printf("a member: /dev/tty %s, TIOCNOTTY %s\n", result(own), result(ioctl(own, TIOCNOTTY)));
            int again = open("/dev/tty", O_RDWR);
            printf("  afterwards: /dev/tty %s", result(again));
            printf(", TIOCNOTTY again %s", result(ioctl(line, TIOCNOTTY)));
            printf(", tcgetsid %s", result(tcgetsid(line)));
            printf(", tcgetpgrp %s\n", result(tcgetpgrp(line)));
            printf("  writes all the same: %s\n", result(write(line, "x", 1)));
            pid_t child = fork();
            if (child == 0) {
                printf("  its child: /dev/tty %s\n", result(open("/dev/tty", O_RDWR)));
                end(0);
            }
            waitpid(child, NULL, 0);
            end(0);
        }
        int status;
        waitpid(member, &status, 0);
        printf("the leader still has it: %d, /dev/tty %s, the foreground is %d\n", tcgetsid(line) == getpid(), result(open("/dev/tty", O_RDWR)),
               tcgetpgrp(line) == getpid());
        fflush(stdout);
        pid_t other = fork();
        if (other == 0) {
            printf("another member too: %s\n", result(open("/dev/tty", O_RDWR)));
            end(0);
        }
        waitpid(other, NULL, 0);
        printf("the leader: TIOCNOTTY %s\n", result(ioctl(line, TIOCNOTTY)));
        printf("  afterwards: /dev/tty %s\n", result(open("/dev/tty", O_RDWR)));
        end(0);
    }
    int status = 0;
    waitpid(leader, &status, 0);
    close(master);
}

static void show_times(const char *what, int file) {
    struct stat stat;
    fstat(file, &stat);
    printf("  %s: %lld.%09ld %lld.%09ld\n", what, (long long)stat.st_atim.tv_sec, stat.st_atim.tv_nsec, (long long)stat.st_mtim.tv_sec, stat.st_mtim.tv_nsec);
}

static void test_times(void) {
    int ends[2];
    pipe(ends);
    struct timespec times[2] = {{1000, 5}, {2000, 7}};
    printf("futimens of a pipe: %s\n", result(futimens(ends[0], times)));
    show_times("read end", ends[0]);
    show_times("write end", ends[1]);
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_sec = 3000;
    printf("futimens of its other end: %s\n", result(futimens(ends[1], times)));
    show_times("read end", ends[0]);
    printf("futimens, now: %s\n", result(futimens(ends[1], NULL)));
    struct stat stat;
    fstat(ends[0], &stat);
    printf("  is recent: %d\n", llabs((long long)stat.st_mtim.tv_sec - (long long)time(NULL)) < 100);
    if (getuid() == 0) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            setresuid(1000, 1000, 1000);
            times[0].tv_nsec = 1;
            printf("another user: times %s", result(futimens(ends[0], times)));
            printf(", now %s\n", result(futimens(ends[0], NULL)));
            end(0);
        }
        waitpid(child, NULL, 0);
    }
    close(ends[0]);
    close(ends[1]);
}

#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif


static void show_root(int dir, const char *name, int flags) {
    union {
        uint8_t bytes[256];
        struct {
            uint32_t mask, blksize;
            uint64_t attributes;
        } head;
    } told;
    memset(&told, 0, sizeof told);
    long done = syscall(SYS_statx, dir, name, flags, 0x7ff, &told);
    uint64_t could;
    memcpy(&could, told.bytes + 56, 8);
    printf("statx of %s: %s, root of a mount %d of %d\n", name[0] ? name : "a descriptor", result(done), (told.head.attributes & STATX_ATTR_MOUNT_ROOT) != 0,
           (could & STATX_ATTR_MOUNT_ROOT) != 0);
}

static void test_roots(void) {
    show_root(AT_FDCWD, "/", 0);
    show_root(AT_FDCWD, "/proc", 0);
    show_root(AT_FDCWD, "/proc/self", 0);
    show_root(AT_FDCWD, "/proc/self/status", 0);
    show_root(AT_FDCWD, "/dev/null", 0);
    show_root(AT_FDCWD, "/proc/self/..", 0);
    show_root(AT_FDCWD, "/proc/..", 0);
    int dir = open("/proc", O_RDONLY);
    show_root(dir, "", 0x1000);
    show_root(dir, ".", 0);
    close(dir);
    int ends[2];
    pipe(ends);
    show_root(ends[0], "", 0x1000);
}


static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* Two that compute on one core: how often one takes turns with the other in 0.6 s. Among ordinary ones, and with turns of 10 ms, it is some 60 times. */
static void test_alternation(void) {
    volatile int *shared = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sched_param two = {.sched_priority = 2};
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    fflush(stdout);
    for (int who = 1; who <= 2; who++)
        if (fork() == 0) {
            sched_setaffinity(0, sizeof first, &first);
            syscall(SYS_sched_setscheduler, 0, SCHED_RR, &two);
            for (double stop = seconds() + 0.6; seconds() < stop;)
                if (shared[0] != who) {
                    shared[0] = who;
                    shared[1]++;
                }
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    printf("both had turns %d, long ones %d\n", shared[1] >= 2, shared[1] < 30);
}

static void test_turns(void) {
    struct timespec interval;
    struct sched_param one = {.sched_priority = 1};
    if (getuid() == 0) {
        syscall(SYS_sched_setscheduler, 0, SCHED_RR, &one);
        sched_rr_get_interval(0, &interval);
        printf("SCHED_RR: %ld.%09ld\n", (long)interval.tv_sec, interval.tv_nsec);
        syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &one);
        sched_rr_get_interval(0, &interval);
        printf("SCHED_FIFO: %ld.%09ld\n", (long)interval.tv_sec, interval.tv_nsec);
        test_alternation();
        one.sched_priority = 0;
        syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &one);
    }
    int file = open("/proc/sys/kernel/sched_rr_timeslice_ms", O_RDONLY);
    char text[16] = "";
    read(file, text, sizeof text - 1);
    printf("sched_rr_timeslice_ms: %s", text);
    close(file);
}

static void show_info(const char *what, pid_t pid, int status) {
    siginfo_t info;
    memset(&info, 0xaa, sizeof info);
    long done = ptrace(PTRACE_GETSIGINFO, pid, 0, &info);
    printf("%s: status %x, %s, signal %d, code %x, of the tracee %d\n", what, status, result(done), info.si_signo, (unsigned)info.si_code, info.si_pid == pid);
}

/* What is told of stops that are for no signal. */
static void test_stops(void) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        for (;;)
            syscall(SYS_getppid);
    }
    int status;
    printf("seize: %s\n", result(ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)));
    ptrace(PTRACE_INTERRUPT, pid, 0, 0);
    waitpid(pid, &status, 0);
    show_info("interrupted", pid, status);
    ptrace(PTRACE_SYSCALL, pid, 0, 0);
    waitpid(pid, &status, 0);
    show_info("a call", pid, status);
    kill(pid, SIGSTOP);
    for (int i = 0; i < 10 && status != (SIGSTOP << 8 | 0x7f); i++) {
        ptrace(PTRACE_CONT, pid, 0, 0);
        waitpid(pid, &status, 0);
    }
    show_info("before SIGSTOP", pid, status & 0xffff);
    ptrace(PTRACE_CONT, pid, 0, SIGSTOP);
    waitpid(pid, &status, 0);
    show_info("stopped", pid, status);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    test_mremap();
    test_select();
    test_terminal();
    test_times();
    test_roots();
    test_turns();
    test_stops();
    return 0;
}
