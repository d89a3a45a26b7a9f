/* Numbers that clone3(2) chooses for a child, how long a round of SCHED_RR is, what is refused of deadlines, and requests of ioctl(2) for all files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLONE3 435

static void say(const char *what, long result) {
    if (result == -1) {
        printf("%s: %s\n", what, strerror(errno));
    } else {
        printf("%s: %ld\n", what, result);
    }
}

#define SAY(call) say(#call, (long)(call))

static long born(int number, unsigned long count) {
    int numbers[2] = {number, 1};
    unsigned long words[11] = {[4] = SIGCHLD, [8] = (unsigned long)numbers, [9] = count};
    fflush(stdout);
    long child = syscall(CLONE3, words, sizeof words);
    if (child == 0) {
        _exit(getpid() == number ? 3 : 4);
    }
    return child;
}

static void numbers(void) {
    int status = 0;
    SAY(born(30000, 1));
    SAY(waitpid(30000, &status, 0));
    printf("%x\n", status);
    SAY(born(30000, 1));
    SAY(born(30000, 1));
    SAY(waitpid(30000, &status, 0));
    SAY(born(1, 1));
    SAY(born(getpid(), 1));
    SAY(born(0, 1));
    SAY(born(-1, 1));
    SAY(born(1 << 23, 1));
    SAY(born(30001, 2));
    SAY(born(30001, 33));
    SAY(seteuid(1000));
    SAY(born(30002, 1));
    SAY(seteuid(0));
    int other = fork();
    if (other == 0) {
        _exit(0);
    }
    printf("%d\n", other > 0 && other != 30001);
    waitpid(other, &status, 0);
}

static void rounds(void) {
    struct sched_param one = {.sched_priority = 1}, zero = {0};
    struct timespec t = {9, 9};
    SAY(syscall(SYS_sched_setscheduler, 0, SCHED_RR, &one));
    SAY(syscall(SYS_sched_rr_get_interval, 0, &t));
    long round = t.tv_nsec / 1000000;
    printf("%ld %d\n", (long)t.tv_sec, round > 0);
    SAY(syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &one));
    SAY(syscall(SYS_sched_rr_get_interval, 0, &t));
    printf("%ld %ld\n", (long)t.tv_sec, t.tv_nsec);
    SAY(syscall(SYS_sched_setscheduler, 0, 0, &zero));
    SAY(syscall(SYS_sched_rr_get_interval, 0, &t));
    printf("%ld\n", (long)t.tv_sec);
    SAY(syscall(SYS_sched_rr_get_interval, -1, &t));
    FILE *file = fopen("/proc/sys/kernel/sched_rr_timeslice_ms", "r");
    int ms = 0;
    SAY(fscanf(file, "%d", &ms));
    printf("the same: %d\n", ms == round);
    fclose(file);
}

static void deadlines(void) {
    struct {
        unsigned size, policy;
        unsigned long flags;
        int nice;
        unsigned priority;
        unsigned long runtime, deadline, period;
        unsigned least, most;
    } a = {48, 6, 0, 0, 0, 5000000, 2000000, 4000000, 0, 0};
    SAY(syscall(SYS_sched_setattr, 0, &a, 0));
    a.runtime = 500;
    SAY(syscall(SYS_sched_setattr, 0, &a, 0));
    a.runtime = 1000000;
    a.period = 1000000;
    SAY(syscall(SYS_sched_setattr, 0, &a, 0));
    a.deadline = 0;
    SAY(syscall(SYS_sched_setattr, 0, &a, 0));
    a.deadline = 2000000;
    a.period = 0;
    SAY(seteuid(1000));
    SAY(syscall(SYS_sched_setattr, 0, &a, 0));
    SAY(seteuid(0));
    a.size = 56;
    a.policy = 0;
    a.flags = 0x20;
    SAY(syscall(SYS_sched_setattr, 0, &a, 0));
}

static void requests(void) {
    char name[] = "/tmp/requests-XXXXXX";
    long size = -1;
    int on = 1, block = 0, p[2], s[2], file = mkstemp(name), set = epoll_create1(0), folder = open("/tmp", O_RDONLY);
    pipe(p);
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    SAY(write(file, "hello", 5));
    SAY(ioctl(file, FIOASYNC, &on));
    SAY(ioctl(set, FIOASYNC, &on));
    SAY(ioctl(p[0], FIOASYNC, &on));
    SAY(ioctl(file, 0x5460, &size));
    printf("%ld\n", size);
    SAY(ioctl(folder, 0x5460, &size));
    SAY(ioctl(p[0], 0x5460, &size));
    SAY(ioctl(file, 1, &block));
    SAY(ioctl(p[0], 1, &block));
    struct pollfd one = {open("/tmp", O_PATH), POLLIN, 0};
    SAY(poll(&one, 1, 0));
    printf("%x\n", one.revents);
    unlink(name);
}

int main(void) {
    numbers();
    rounds();
    deadlines();
    requests();
    return 0;
}
