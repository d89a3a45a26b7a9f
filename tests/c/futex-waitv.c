/* futex_waitv on words of one process, of several, and on both kinds: which one it was, values, times, signals, wrong sizes. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* As in <linux/futex.h>, which not every C library has. */
enum { WAKE = 1, REQUEUE = 3, SIZE_32 = 2, PRIVATE = 128, WAITV = 449, MOST = 128 };
struct waiter {
    uint64_t value, address;
    uint32_t flags, reserved;
};

static uint32_t *shared, own[MOST];
static struct waiter list[MOST + 1];

static struct waiter *word(int at, uint32_t *address, uint32_t flags) {
    list[at] = (struct waiter){.value = *address, .address = (uintptr_t)address, .flags = SIZE_32 | flags};
    return &list[at];
}

static struct timespec after(int milliseconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += milliseconds * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
    return until;
}

static long waitv(int count, struct timespec *until) {
    long result = syscall(WAITV, list, count, 0, until, CLOCK_MONOTONIC);
    return result < 0 ? -errno : result;
}

static const char *said(long result) {
    static char text[32];
    if (result < 0) {
        return strerror(-result);
    }
    snprintf(text, sizeof text, "%ld", result);
    return text;
}

static long wake(uint32_t *address, int flags) {
    return syscall(SYS_futex, address, WAKE | flags, 100, NULL, NULL, 0);
}

static uint32_t *late_word;
static int late_flags;
static pthread_t main_thread;

static void *wake_late(void *unused) {
    usleep(50000);
    printf("  woken: %ld\n", wake(late_word, late_flags));
    return unused;
}

static void *signal_late(void *unused) {
    usleep(50000);
    pthread_kill(main_thread, SIGUSR1);
    return unused;
}

static void nothing(int signal) {
    (void)signal;
}

/* Another thread wakes this word. */
static void wait_for(int count, uint32_t *which, int flags) {
    pthread_t thread;
    struct timespec until = after(5000);
    late_word = which, late_flags = flags;
    pthread_create(&thread, NULL, wake_late, NULL);
    long result = waitv(count, &until);
    pthread_join(thread, NULL);
    printf("  which: %s\n", said(result));
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    main_thread = pthread_self();
    shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sigaction act = {.sa_handler = nothing};
    sigaction(SIGUSR1, &act, NULL);

    printf("of this process:\n");
    for (int i = 0; i < 4; i++) {
        word(i, &own[i], i & 1 ? PRIVATE : 0);
    }
    wait_for(4, &own[2], 0);
    wait_for(4, &own[3], PRIVATE);

    printf("shared:\n");
    for (int i = 0; i < MOST; i++) {
        word(i, &shared[i * 8], 0);
    }
    wait_for(MOST, &shared[0], 0);
    wait_for(MOST, &shared[127 * 8], 0);
    wait_for(5, &shared[3 * 8], 0);
    printf("  nobody is left: %ld\n", wake(&shared[4 * 8], 0));

    printf("both:\n");
    word(0, &own[0], PRIVATE), word(1, &shared[0], 0), word(2, &own[1], 0), word(3, &shared[8], 0), word(4, &own[2], PRIVATE);
    wait_for(5, &own[0], PRIVATE);
    wait_for(5, &shared[0], 0);
    wait_for(5, &own[1], 0);
    wait_for(5, &shared[8], 0);
    wait_for(5, &own[2], PRIVATE);
    printf("  nobody is left: %ld %ld %ld\n", wake(&shared[0], 0), wake(&own[0], PRIVATE), wake(&own[1], 0));

    printf("a process wakes:\n");
    word(0, &own[0], PRIVATE), word(1, &shared[0], 0), word(2, &shared[8], 0);
    pid_t child = fork();
    if (child == 0) {
        usleep(50000);
        /* The child's own word is another one. */
        long none = wake(&own[0], PRIVATE);
        long one = wake(&shared[8], 0);
        _exit(none == 0 && one == 1 ? 7 : 8);
    }
    struct timespec until = after(5000);
    printf("  which: %s\n", said(waitv(3, &until)));
    int status;
    waitpid(child, &status, 0);
    printf("  the child: %d\n", WEXITSTATUS(status));

    printf("processes wait:\n");
    for (int i = 0; i < 6; i++) {
        usleep(30000);
        if (fork() == 0) {
            word(0, &shared[i * 8], 0), word(1, &own[0], PRIVATE), word(2, &shared[64], 0);
            until = after(10000);
            _exit(waitv(3, &until));
        }
    }
    usleep(100000);
    printf("  woken: %ld\n", wake(&shared[0], 0));
    printf("  woken: %ld\n", wake(&shared[8], 0));
    /* Until they have left the other words. */
    usleep(100000);
    printf("  moved: %ld\n", syscall(SYS_futex, &shared[64], REQUEUE, 0, 2, &shared[72], 0));
    printf("  woken: %ld\n", wake(&shared[72], 0));
    printf("  woken: %ld\n", wake(&shared[64], 0));
    int results[3] = {0};
    while (wait(&status) > 0) {
        results[WEXITSTATUS(status) % 3]++;
    }
    printf("  by the first word: %d, by the last one: %d\n", results[0], results[2]);

    printf("time:\n");
    word(0, &own[0], PRIVATE), word(1, &shared[0], 0);
    until = after(30);
    printf("  both: %s\n", said(waitv(2, &until)));
    printf("  over: %s\n", said(waitv(2, &until)));
    list[0] = list[1];
    until = after(30);
    printf("  shared: %s\n", said(waitv(1, &until)));
    printf("  the same twice: %s\n", said(waitv(2, &until)));
    until.tv_nsec = 1000000000;
    printf("  wrong: %s\n", said(waitv(1, &until)));
    printf("  wrong clock: %ld\n", syscall(WAITV, list, 1, 0, &until, 7));

    printf("a signal:\n");
    pthread_t thread;
    for (int restarts = 0; restarts < 2; restarts++) {
        act.sa_flags = restarts ? SA_RESTART : 0;
        sigaction(SIGUSR1, &act, NULL);
        word(0, &own[0], PRIVATE), word(1, &shared[0], 0);
        pthread_create(&thread, NULL, signal_late, NULL);
        until = after(200);
        printf("  both: %s\n", said(waitv(2, &until)));
        pthread_join(thread, NULL);
    }

    printf("values and flags:\n");
    word(0, &shared[0], 0)->value++;
    word(1, &own[0], PRIVATE);
    until = after(5000);
    printf("  shared: %s\n", said(waitv(2, &until)));
    word(0, &shared[0], 0), word(1, &own[0], PRIVATE)->value++;
    printf("  own: %s\n", said(waitv(2, &until)));
    for (uint32_t flags = 0; flags < 8; flags++) {
        word(0, &shared[0], 0)->flags = flags;
        list[0].value = 1;
        printf("  size %u: %s\n", flags, said(waitv(1, &until)));
    }
    word(0, &shared[0], 0)->reserved = 1;
    printf("  reserved: %s\n", said(waitv(1, &until)));
    word(0, &shared[0], 0)->value = 1ull << 32;
    list[0].flags |= 1 << 30;
    printf("  a flag: %s\n", said(waitv(1, &until)));
    word(0, &shared[0], 0)->address++;
    printf("  not aligned: %s\n", said(waitv(1, &until)));
    word(0, &shared[0], 0)->address = 16;
    printf("  nowhere: %s\n", said(waitv(1, &until)));
    printf("  none: %s\n", said(waitv(0, &until)));
    printf("  too many: %s\n", said(waitv(MOST + 1, &until)));
    return 0;
}
