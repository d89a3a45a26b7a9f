/* Forks of a program with much memory, while its other threads ask the system for this and that, signals come, and somebody ends it. */
// cairn-test: time=60 cores=4
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, SIZE = 24 * MIB, FORKS = 30 };
static volatile int over;
static int failed;
static volatile sig_atomic_t signals;

static void is_at(int line, long got, long wanted) {
    if (got != wanted) {
        printf("%d: %ld, not %ld (%s)\n", line, got, wanted, strerror(errno));
        failed = 1;
    }
}
#define is(got, wanted) is_at(__LINE__, (long)(got), (long)(wanted))

static void counts(int signal) {
    (void)signal;
    signals++;
}

static void *nothing(void *argument) { return argument; }

/* Threads, small children that are waited for, signals, priorities: nothing of it fails, whether a fork is under way or not. */
static void *asks(void *argument) {
    long done = 0;
    while (!over) {
        pthread_t thread;
        void *result;
        is(pthread_create(&thread, NULL, nothing, argument), 0);
        pthread_join(thread, &result);
        is(result == argument, 1);
        pid_t child = vfork();
        if (child == 0) _exit(7);
        int status = 0;
        is(waitpid(child, &status, 0), child);
        is(WEXITSTATUS(status), 7);
        is(getpgid(0) > 0, 1);
        is(kill(getpid(), SIGUSR1), 0);
        is(setpriority(PRIO_PROCESS, 0, 0), 0);
        done++;
    }
    return (void *)done;
}

/* A wait for a child that does not end is interrupted. */
static volatile int waits;
static void *is_interrupted(void *child) {
    int status;
    waits = 1;
    long result = waitpid(*(pid_t *)child, &status, 0);
    return (void *)(result < 0 ? (long)errno : result);
}

static unsigned sum(const unsigned char *memory) {
    unsigned all = 0;
    for (size_t at = 0; at < SIZE; at += 4096) all = all * 31 + memory[at];
    return all;
}

int main(void) {
    alarm(50);
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct sigaction action = {.sa_handler = counts, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_flags = 0;
    sigaction(SIGUSR2, &action, NULL);
    unsigned char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t at = 0; at < SIZE; at += 4096) memory[at] = at / 4096 * 7;
    unsigned before = sum(memory);

    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, asks, &threads[i]);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) _exit(sum(memory) == before && memory[4096 * 100] == (unsigned char)700 ? i : 99);
        int status = 0;
        is(waitpid(child, &status, 0), child);
        is(WEXITSTATUS(status), i);
    }
    over = 1;
    for (int i = 0; i < 3; i++) {
        void *done;
        pthread_join(threads[i], &done);
        is((long)done > 0, 1);
    }
    is(signals > 0, 1);
    is(sum(memory), before);

    pid_t sleeper = fork();
    if (sleeper == 0) for (;;) pause();
    for (int i = 0; i < 10; i++) {
        pthread_t waiter;
        void *result;
        waits = 0;
        pthread_create(&waiter, NULL, is_interrupted, &sleeper);
        while (!waits) usleep(100);
        if (i % 2) usleep(1000);
        pid_t child = fork();
        if (child == 0) _exit(0);
        int status;
        /* (The other thread waits for another child.) */
        is(waitpid(child, &status, 0), child);
        usleep(2000);
        pthread_kill(waiter, SIGUSR2);
        pthread_join(waiter, &result);
        is((long)result, EINTR);
    }

    /* Whoever ends in the middle of it leaves no child. */
    for (int i = 0; i < 10; i++) {
        int ends[2];
        is(pipe(ends), 0);
        pid_t parent = fork();
        if (parent == 0) {
            close(ends[0]);
            if (write(ends[1], "", 1) != 1) _exit(1);
            for (;;) {
                pid_t child = fork();
                if (child == 0) _exit(0);
                if (child > 0) waitpid(child, NULL, 0);
            }
        }
        close(ends[1]);
        char byte;
        is(read(ends[0], &byte, 1), 1);
        usleep(300 * i);
        is(kill(parent, SIGKILL), 0);
        int status;
        is(waitpid(parent, &status, 0), parent);
        is(WTERMSIG(status), SIGKILL);
        /* Nobody has the other end any more. */
        is(read(ends[0], &byte, 1), 0);
        close(ends[0]);
    }
    kill(sleeper, SIGKILL);
    is(waitpid(sleeper, NULL, 0), sleeper);
    is(waitpid(-1, NULL, 0) == -1 && errno == ECHILD, 1);
    puts(failed ? "failed" : "good");
    return failed;
}
