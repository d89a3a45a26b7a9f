/* FUTEX_WAIT_REQUEUE_PI and FUTEX_CMP_REQUEUE_PI: who waits for one word is moved to another one with priority inheritance. Mismatched pairs, times, signals. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* As in <linux/futex.h>, which not every C library has. */
enum { WAIT, WAKE, REQUEUE = 3, CMP_REQUEUE, WAKE_OP, LOCK_PI, UNLOCK_PI, TRYLOCK_PI, WAIT_REQUEUE_PI = 11, CMP_REQUEUE_PI, PRIVATE = 128, REALTIME = 256 };
static const uint32_t waiters_bit = 0x80000000, owner_bits = 0x3fffffff;

static uint32_t condition, mutex, other;
static int flag = PRIVATE;

static long futex(uint32_t *word, int operation, uint32_t value, uintptr_t timeout, uint32_t *second, uint32_t third) {
    long result = syscall(SYS_futex, word, operation | flag, value, timeout, second, third);
    return result < 0 ? -errno : result;
}

static const char *name(long result) {
    static char text[4][24];
    static int at;
    char *to = text[at++ % 4];
    switch (result) {
    case -EINVAL: return "EINVAL";
    case -EAGAIN: return "EAGAIN";
    case -EDEADLK: return "EDEADLK";
    case -ETIMEDOUT: return "ETIMEDOUT";
    case -EINTR: return "EINTR";
    case -ESRCH: return "ESRCH";
    case -EPERM: return "EPERM";
    case -EFAULT: return "EFAULT";
    case -ENOSYS: return "ENOSYS";
    }
    snprintf(to, sizeof text[0], "%ld", result);
    return to;
}

enum { MOST = 8 };
static struct waiter {
    pthread_t thread;
    volatile pid_t tid;
    int milliseconds, operation, number;
    uint32_t *to;
    long result;
    uint32_t word;
} waiters[MOST];
static int order[MOST], ended;

static struct timespec after(clockid_t clock, int milliseconds) {
    struct timespec until;
    clock_gettime(clock, &until);
    until.tv_sec += milliseconds / 1000, until.tv_nsec += milliseconds % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
    return until;
}

static void *wait_for_it(void *of) {
    struct waiter *w = of;
    struct timespec until = after(w->operation & REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC, w->milliseconds);
    w->tid = syscall(SYS_gettid);
    w->result = futex(&condition, w->operation, 0, w->milliseconds ? (uintptr_t)&until : 0, w->to, 0);
    w->word = mutex;
    if (w->result == 0 && (w->operation & 127) == WAIT_REQUEUE_PI) {
        order[ended++] = w->number;
        if (!__sync_bool_compare_and_swap(&mutex, w->tid, 0)) {
            futex(&mutex, UNLOCK_PI, 0, 0, NULL, 0);
        }
    }
    return NULL;
}

/* Until each other thread waits. */
static void rest(void) {
    usleep(50000);
}

static void begin(int count, int operation, int milliseconds, uint32_t *to) {
    condition = 0, ended = 0;
    for (int i = 0; i < count; i++) {
        struct waiter *w = &waiters[i];
        *w = (struct waiter){.milliseconds = milliseconds, .operation = operation, .number = i, .to = to};
        pthread_create(&w->thread, NULL, wait_for_it, w);
        while (w->tid == 0) {
            usleep(1000);
        }
        rest();
    }
}

static void join(int count) {
    for (int i = 0; i < count; i++) {
        pthread_join(waiters[i].thread, NULL);
        printf("  waiter %d: %s%s\n", i, name(waiters[i].result), (waiters[i].word & owner_bits) == (uint32_t)waiters[i].tid ? ", and has it" : "");
    }
}

static void take(void) {
    if (!__sync_bool_compare_and_swap(&mutex, 0, syscall(SYS_gettid))) {
        futex(&mutex, LOCK_PI, 0, 0, NULL, 0);
    }
}

static void give(void) {
    if (!__sync_bool_compare_and_swap(&mutex, syscall(SYS_gettid), 0)) {
        printf("  given back: %s\n", name(futex(&mutex, UNLOCK_PI, 0, 0, NULL, 0)));
    }
}

static void nothing(int signal) {
    (void)signal;
}

static void all(void) {
    condition = 0, mutex = 0;
    printf("wrong:\n");
    printf("  %s\n", name(futex(&condition, CMP_REQUEUE_PI, 0, 0, &mutex, 0)));
    printf("  %s\n", name(futex(&condition, CMP_REQUEUE_PI, 2, 0, &mutex, 0)));
    printf("  %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 0, &condition, 0)));
    printf("  %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 0, &mutex, 1)));
    printf("  %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 0, (uint32_t *)((char *)&mutex + 1), 0)));
    printf("  %s\n", name(futex(&condition, WAIT_REQUEUE_PI, 0, 0, &condition, 0)));
    printf("  %s\n", name(futex(&condition, WAIT_REQUEUE_PI, 1, 0, &mutex, 0)));
    printf("  %s\n", name(futex(&condition, WAIT_REQUEUE_PI, 0, 0, (uint32_t *)((char *)&mutex + 2), 0)));
    printf("  %s\n", name(futex(&condition, WAIT_REQUEUE_PI, 0, 1, &mutex, 0)));
    printf("  %s\n", name(futex(&condition, CMP_REQUEUE_PI | REALTIME, 1, 0, &mutex, 0)));
    printf("nobody waits: %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 9, &mutex, 0)));
    struct timespec soon = after(CLOCK_MONOTONIC, 20), soon_real = after(CLOCK_REALTIME, 20);
    printf("too late: %s\n", name(futex(&condition, WAIT_REQUEUE_PI, 0, (uintptr_t)&soon, &mutex, 0)));
    printf("by the other clock: %s\n", name(futex(&condition, WAIT_REQUEUE_PI | REALTIME, 0, (uintptr_t)&soon_real, &mutex, 0)));

    printf("to a word that is free:\n");
    begin(1, WAIT_REQUEUE_PI, 0, &mutex);
    printf("  moved: %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 0, &mutex, 0)));
    join(1);
    printf("  left: %x\n", mutex);

    printf("one of three, to a word that the mover has:\n");
    begin(3, WAIT_REQUEUE_PI, 0, &mutex);
    take();
    printf("  moved: %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 0, &mutex, 0)));
    printf("  somebody waits: %s\n", mutex & waiters_bit ? "yes" : "no");
    give();
    rest();
    take();
    printf("  moved: %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 8, &mutex, 0)));
    rest();
    give();
    join(3);
    printf("  in order: %d %d %d, left: %x\n", order[0], order[1], order[2], mutex);

    printf("all of six, to a free word:\n");
    begin(6, WAIT_REQUEUE_PI, 0, &mutex);
    printf("  moved: %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 0x7fffffff, &mutex, 0)));
    join(6);
    printf("  nobody is left: %s, %x\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 9, &mutex, 0)), mutex);

    printf("how many at most:\n");
    begin(4, WAIT_REQUEUE_PI, 0, &mutex);
    take();
    printf("  moved: %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 2, &mutex, 0)));
    give();
    printf("  moved: %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 2, &mutex, 0)));
    join(4);

    printf("pairs that do not fit:\n");
    begin(1, WAIT_REQUEUE_PI, 0, &mutex);
    printf("  woken: %s\n", name(futex(&condition, WAKE, 1, 0, NULL, 0)));
    printf("  requeued: %s\n", name(futex(&condition, REQUEUE, 0, 1, &mutex, 0)));
    printf("  compared and requeued: %s\n", name(futex(&condition, CMP_REQUEUE, 0, 1, &other, 0)));
    printf("  to another word: %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 0, &other, 0)));
    printf("  another value: %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 0, &mutex, 1)));
    printf("  a waiter's own word: ");
    mutex = waiters[0].tid;
    printf("%s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 0, &mutex, 0)));
    mutex = 0x3ffffff0;
    printf("  the word of nobody: %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 0, &mutex, 0)));
    mutex = 0;
    printf("  moved: %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 0, &mutex, 0)));
    join(1);
    begin(1, WAIT, 0, NULL);
    printf("  who only waits: %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 0, &mutex, 0)));
    printf("  woken: %s\n", name(futex(&condition, WAKE, 1, 0, NULL, 0)));
    join(1);

    printf("time is up after it was moved:\n");
    begin(1, WAIT_REQUEUE_PI, 300, &mutex);
    take();
    printf("  moved: %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 0, &mutex, 0)));
    printf("  woken: %s\n", name(futex(&mutex, WAKE, 1, 0, NULL, 0)));
    join(1);
    give();
    printf("  free: %s\n", (mutex & owner_bits) == 0 ? "yes" : "no");
    mutex = 0;
    begin(1, WAIT_REQUEUE_PI | REALTIME, 300, &mutex);
    join(1);

    printf("signals:\n");
    struct sigaction act = {.sa_handler = nothing};
    sigaction(SIGUSR1, &act, NULL);
    begin(1, WAIT_REQUEUE_PI, 0, &mutex);
    pthread_kill(waiters[0].thread, SIGUSR1);
    rest();
    take();
    printf("  moved: %s\n", name(futex(&condition, CMP_REQUEUE_PI, 1, 0, &mutex, 0)));
    rest();
    pthread_kill(waiters[0].thread, SIGUSR1);
    rest();
    give();
    join(1);
    mutex = 0;
    begin(1, WAIT_REQUEUE_PI, 0, &mutex);
    condition = 1;
    pthread_kill(waiters[0].thread, SIGUSR1);
    join(1);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    all();
    printf("without the flag of a process's own word:\n");
    flag = 0;
    all();
    return 0;
}
