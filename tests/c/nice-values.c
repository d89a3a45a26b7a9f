/* Nice values belong to threads: getpriority and setpriority of one, of a process's first thread and of a group; what new threads and children begin with, also by
   SCHED_RESET_ON_FORK; the share of a policy; PR_SET_TIMERSLACK. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SCHED_RESET_ON_FORK
#define SCHED_RESET_ON_FORK 0x40000000
#endif

static pthread_barrier_t met;
static int tids[2];

/* The nice value that the number means. */
static int nice_of(int which, int who) {
    errno = 0;
    int value = getpriority(which, who);
    return errno != 0 ? 100 + errno : value;
}

static void tell(const char *what) {
    printf("%s: self %d, process %d, others %d %d, group %d\n", what, nice_of(PRIO_PROCESS, 0), nice_of(PRIO_PROCESS, getpid()),
           nice_of(PRIO_PROCESS, tids[0]), nice_of(PRIO_PROCESS, tids[1]), nice_of(PRIO_PGRP, 0));
}

static void *other(void *argument) {
    long at = (long)argument;
    tids[at] = syscall(SYS_gettid);
    pthread_barrier_wait(&met);
    pthread_barrier_wait(&met);
    if (at == 0) {
        printf("nice %d\n", nice(3));
        tell("one thread is nicer");
        pid_t child = fork();
        if (child == 0) {
            printf("its child begins with %d\n", nice_of(PRIO_PROCESS, 0));
            fflush(stdout);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    pthread_barrier_wait(&met);
    pthread_barrier_wait(&met);
    return NULL;
}

/* (By the calls themselves: not every C library makes them.) */
static long policy(void) { return syscall(SYS_sched_getscheduler, 0); }
static long set_policy(int policy, int priority) { return syscall(SYS_sched_setscheduler, 0, policy, &priority); }

static void *reset(void *what) {
    printf("%s: %lx, nice %d\n", (char *)what, policy(), nice_of(PRIO_PROCESS, 0));
    return NULL;
}

static void made(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, reset, "its thread");
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        reset("its child");
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void resets(void) {
    printf("SCHED_FIFO, reset: %ld %lx\n", set_policy(SCHED_FIFO | SCHED_RESET_ON_FORK, 3), policy());
    made();
    struct timespec share = {7, 7};
    printf("share %ld: %d\n", syscall(SYS_sched_rr_get_interval, 0, &share), share.tv_sec == 0 && share.tv_nsec == 0);
    printf("SCHED_RR %ld %lx\n", set_policy(SCHED_RR, 3), policy());
    made();
    printf("share %ld: %d\n", syscall(SYS_sched_rr_get_interval, 0, &share), share.tv_sec != 0 || share.tv_nsec != 0);
    printf("ordinary, reset: %ld", set_policy(SCHED_OTHER | SCHED_RESET_ON_FORK, 0));
    printf(" %d %lx\n", setpriority(PRIO_PROCESS, 0, -5), policy());
    made();
    printf("%ld %d\n", set_policy(SCHED_OTHER, 0), setpriority(PRIO_PROCESS, 0, 0));
}

static void slack(void) {
    printf("slack %d", prctl(PR_GET_TIMERSLACK));
    printf(" %d %d", prctl(PR_SET_TIMERSLACK, 1234), prctl(PR_GET_TIMERSLACK));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        printf(", its child's %d", prctl(PR_GET_TIMERSLACK));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    puts("");
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    setpgid(0, 0);
    pthread_t threads[2];
    pthread_barrier_init(&met, NULL, 3);
    printf("at first %d %d\n", nice_of(PRIO_PROCESS, 0), setpriority(PRIO_PROCESS, 0, 2));
    for (long i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, other, (void *)i);
    }
    pthread_barrier_wait(&met);
    tell("as their maker");
    pthread_barrier_wait(&met);
    pthread_barrier_wait(&met);
    tell("seen by the first");
    printf("the first one %d\n", setpriority(PRIO_PROCESS, getpid(), 9));
    tell("the first is nicer");
    printf("by number %d\n", setpriority(PRIO_PROCESS, tids[1], 7));
    tell("another");
    printf("the group %d\n", setpriority(PRIO_PGRP, 0, 11));
    tell("all");
    printf("no such %d %s\n", setpriority(PRIO_PROCESS, 0x3fffffff, 1), strerror(errno));
    printf("no kind %d %s\n", setpriority(7, 0, 1), strerror(errno));
    pthread_barrier_wait(&met);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    setpriority(PRIO_PROCESS, 0, 0);
    resets();
    slack();
    return 0;
}
