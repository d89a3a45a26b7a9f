/* Mutexes with priority inheritance in memory that processes share: locked by each in turn, with times, tried, robust ones whose owner is killed. */
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

enum { PROCESSES = 4, THREADS = 3, TURNS = 200, LOCK_PI = 6, UNLOCK_PI, TRYLOCK_PI };

static struct shared {
    pthread_mutex_t plain, robust;
    uint32_t word;
    volatile int counter, ready;
} *shared;

static void check(int error, const char *what) {
    if (error) {
        printf("%s: %s\n", what, strerror(error));
        exit(1);
    }
}

static void *turns(void *unused) {
    for (int i = 0; i < TURNS; i++) {
        check(pthread_mutex_lock(&shared->plain), "lock");
        int seen = shared->counter;
        if (i % 16 == 0) {
            usleep(200);
        }
        shared->counter = seen + 1;
        check(pthread_mutex_unlock(&shared->plain), "unlock");
    }
    return unused;
}

static long futex(int operation, struct timespec *until) {
    long result = syscall(SYS_futex, &shared->word, operation, 0, until, NULL, 0);
    return result < 0 ? -errno : result;
}

static pid_t begin_holder(void) {
    shared->ready = 0;
    pid_t holder = fork();
    if (holder == 0) {
        check(pthread_mutex_lock(&shared->plain), "a child's lock");
        check(pthread_mutex_lock(&shared->robust), "a child's lock");
        futex(LOCK_PI, NULL);
        shared->ready = 1;
        for (;;) {
            pause();
            futex(UNLOCK_PI, NULL);
            check(pthread_mutex_unlock(&shared->robust), "a child's unlock");
            check(pthread_mutex_unlock(&shared->plain), "a child's unlock");
            break;
        }
        _exit(0);
    }
    while (!shared->ready) {
        usleep(1000);
    }
    usleep(50000);
    return holder;
}

static void nothing(int signal) {
    (void)signal;
}

static void *late(void *of) {
    usleep(100000);
    kill(*(pid_t *)of, SIGUSR1);
    return NULL;
}

static void *kill_late(void *of) {
    usleep(100000);
    kill(*(pid_t *)of, SIGKILL);
    return NULL;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    check(pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED), "shared");
    check(pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT), "inherit");
    check(pthread_mutex_init(&shared->plain, &kind), "init");
    check(pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST), "robust");
    check(pthread_mutex_init(&shared->robust, &kind), "init");
    signal(SIGUSR1, nothing);

    for (int i = 0; i < PROCESSES; i++) {
        if (fork() == 0) {
            pthread_t threads[THREADS];
            for (int t = 0; t < THREADS; t++) {
                check(pthread_create(&threads[t], NULL, turns, NULL), "create");
            }
            for (int t = 0; t < THREADS; t++) {
                pthread_join(threads[t], NULL);
            }
            _exit(0);
        }
    }
    int status, bad = 0;
    for (int i = 0; i < PROCESSES; i++) {
        wait(&status);
        bad += status != 0;
    }
    printf("turns: %d of %d, %d failed\n", shared->counter, PROCESSES * THREADS * TURNS, bad);

    pid_t holder = begin_holder();
    printf("tried: %s\n", strerror(pthread_mutex_trylock(&shared->plain)));
    printf("tried: %s\n", strerror(-futex(TRYLOCK_PI, NULL)));
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 50000000;
    until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
    printf("in time: %s\n", strerror(pthread_mutex_timedlock(&shared->plain, &until)));
    printf("in time: %s\n", strerror(-futex(LOCK_PI, &until)));
    printf("another's: %s\n", strerror(-futex(UNLOCK_PI, NULL)));
    pthread_t helper;
    pthread_create(&helper, NULL, late, &holder);
    printf("given back: %s\n", strerror(pthread_mutex_lock(&shared->plain)));
    printf("given back: %s\n", strerror(-futex(LOCK_PI, NULL)));
    printf("own: %s\n", strerror(-futex(LOCK_PI, NULL)));
    futex(UNLOCK_PI, NULL);
    pthread_mutex_unlock(&shared->plain);
    pthread_join(helper, NULL);
    waitpid(holder, &status, 0);
    printf("the word: %x\n", shared->word & 0x3fffffff);

    holder = begin_holder();
    pthread_create(&helper, NULL, kill_late, &holder);
    printf("killed: %s\n", strerror(pthread_mutex_lock(&shared->robust)));
    printf("mended: %s\n", strerror(pthread_mutex_consistent(&shared->robust)));
    printf("given back: %s\n", strerror(pthread_mutex_unlock(&shared->robust)));
    pthread_join(helper, NULL);
    waitpid(holder, &status, 0);
    shared->word = 0x3fffff00;
    printf("nobody's: %s\n", strerror(-futex(LOCK_PI, NULL)));
    return 0;
}
