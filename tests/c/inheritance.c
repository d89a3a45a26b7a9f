/* Priority inheritance of mutexes with real priorities: a thread that waits lifts the owner, through chains, and gives up again; what is printed is the order in which things happen on one processor. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_PI = 6, UNLOCK_PI = 7, TRYLOCK_PI = 8, PRIVATE = 128 };
static pthread_mutex_t first, second;
static sem_t ready, done;
static char order[4096];

static void say(const char *what) {
    strcat(order, " ");
    strcat(order, what);
}

static void work(long times) {
    for (volatile long i = 0; i < times; i++) {
    }
}

/* Longer than a quantum on any machine. */
enum { LONG = 30000000 };

static pthread_t start(int priority, void *(*run)(void *), void *argument) {
    pthread_attr_t attributes;
    struct sched_param parameter = {.sched_priority = priority};
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &parameter);
    int error = pthread_create(&thread, &attributes, run, argument);
    if (error != 0) {
        printf("pthread_create: %s\n", strerror(error));
        exit(1);
    }
    pthread_attr_destroy(&attributes);
    return thread;
}

static void make(pthread_mutex_t *mutex, int protocol, int type, int robust) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    if (pthread_mutexattr_setprotocol(&attributes, protocol) != 0) {
        printf("no such protocol\n");
    }
    pthread_mutexattr_settype(&attributes, type);
    pthread_mutexattr_setrobust(&attributes, robust);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static void *low(void *unused) {
    pthread_mutex_lock(&first);
    say("low-has");
    sem_post(&ready);
    work(LONG);
    say("low-gives");
    pthread_mutex_unlock(&first);
    say("low-ends");
    sem_post(&done);
    return unused;
}
static void *middle(void *unused) {
    work(LONG);
    say("middle-ends");
    sem_post(&done);
    return unused;
}
static void *high(void *unused) {
    say("high-wants");
    pthread_mutex_lock(&first);
    say("high-has");
    pthread_mutex_unlock(&first);
    sem_post(&done);
    return unused;
}
/* Owns the second mutex and waits for the first. */
static void *between(void *unused) {
    pthread_mutex_lock(&second);
    say("between-wants");
    sem_post(&ready);
    pthread_mutex_lock(&first);
    say("between-has");
    pthread_mutex_unlock(&first);
    pthread_mutex_unlock(&second);
    sem_post(&done);
    return unused;
}
static void *high_of_second(void *unused) {
    say("high-wants");
    pthread_mutex_lock(&second);
    say("high-has");
    pthread_mutex_unlock(&second);
    sem_post(&done);
    return unused;
}
static sem_t go;
static volatile int gave_up;
/* Waits for something else while it has the mutex. */
static void *low_that_waits(void *unused) {
    pthread_mutex_lock(&first);
    say("low-has");
    sem_post(&ready);
    sem_wait(&go);
    work(LONG / 10);
    say("low-gives");
    pthread_mutex_unlock(&first);
    say("low-ends");
    sem_post(&done);
    return unused;
}
static void *middle_afterwards(void *unused) {
    while (!gave_up) {
    }
    return middle(unused);
}
static void *gives_up(void *unused) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 3000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    say("high-wants");
    int error = pthread_mutex_timedlock(&first, &until);
    say(error == ETIMEDOUT ? "high-gives-up" : "high-has?");
    gave_up = 1;
    sem_post(&go);
    sem_post(&done);
    return unused;
}

static void show(const char *what, int threads, pthread_t *thread) {
    for (int i = 0; i < threads; i++) {
        sem_wait(&done);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
    }
    printf("%s:%s\n", what, order);
    order[0] = 0;
}

static void *dies(void *unused) {
    pthread_mutex_lock(&first);
    sem_post(&ready);
    work(LONG / 10);
    return unused;
}

static long counter;
static void *counts(void *unused) {
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&first);
        long now = counter;
        if (i % 50 == 0) {
            sched_yield();
        }
        counter = now + 1;
        pthread_mutex_unlock(&first);
    }
    return unused;
}

static void count(const char *what) {
    pthread_t thread[8];
    counter = 0;
    for (int i = 0; i < 8; i++) {
        pthread_create(&thread[i], NULL, counts, NULL);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(thread[i], NULL);
    }
    printf("%s: %ld\n", what, counter);
}

static long futex(uint32_t *word, int operation) {
    long result = syscall(SYS_futex, word, operation | PRIVATE, 0, NULL, NULL, 0);
    return result < 0 ? -errno : result;
}

int main(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof one, &one);
    struct sched_param parameter = {.sched_priority = 40};
    /* One C library has no such function. */
    if (syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &parameter) != 0) {
        printf("sched_setscheduler: %s\n", strerror(errno));
    }
    sem_init(&ready, 0, 0);
    sem_init(&done, 0, 0);
    pthread_t thread[4];
    const int protocols[] = {PTHREAD_PRIO_NONE, PTHREAD_PRIO_INHERIT};
    for (int i = 0; i < 2; i++) {
        make(&first, protocols[i], PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED);
        thread[0] = start(10, low, NULL);
        sem_wait(&ready);
        thread[1] = start(20, middle, NULL);
        thread[2] = start(30, high, NULL);
        show(i == 0 ? "plain" : "inheriting", 3, thread);
    }
    for (int i = 0; i < 2; i++) {
        make(&first, protocols[i], PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED);
        make(&second, protocols[i], PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED);
        thread[0] = start(10, low, NULL);
        sem_wait(&ready);
        thread[1] = start(15, between, NULL);
        sem_wait(&ready);
        thread[2] = start(20, middle, NULL);
        thread[3] = start(30, high_of_second, NULL);
        show(i == 0 ? "plain chain" : "inheriting chain", 4, thread);
    }
    /* Who gives up lifts no longer: the one between goes on before the owner. */
    sem_init(&go, 0, 0);
    thread[0] = start(10, low_that_waits, NULL);
    sem_wait(&ready);
    thread[1] = start(20, middle_afterwards, NULL);
    thread[2] = start(30, gives_up, NULL);
    show("giving up", 3, thread);

    make(&first, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED);
    printf("lock %d", pthread_mutex_lock(&first));
    printf(", again %d", pthread_mutex_lock(&first) == EDEADLK);
    printf(", try %d", pthread_mutex_trylock(&first) == EBUSY);
    printf(", unlock %d", pthread_mutex_unlock(&first));
    printf(", again %d\n", pthread_mutex_unlock(&first) == EPERM);
    make(&first, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED);
    printf("recursive %d", pthread_mutex_lock(&first));
    printf(" %d", pthread_mutex_lock(&first));
    printf(" %d", pthread_mutex_unlock(&first));
    printf(" %d\n", pthread_mutex_unlock(&first));

    for (int waits = 0; waits < 2; waits++) {
        make(&first, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST);
        thread[0] = start(10, dies, NULL);
        sem_wait(&ready);
        if (!waits) {
            pthread_join(thread[0], NULL);
        }
        int error = pthread_mutex_lock(&first);
        printf("owner died: %s", error == EOWNERDEAD ? "told" : strerror(error));
        printf(", consistent %d", pthread_mutex_consistent(&first));
        printf(", unlock %d", pthread_mutex_unlock(&first));
        printf(", lock %d", pthread_mutex_lock(&first));
        printf(", unlock %d\n", pthread_mutex_unlock(&first));
        if (waits) {
            pthread_join(thread[0], NULL);
        }
    }

    parameter.sched_priority = 0;
    syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &parameter);
    make(&first, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED);
    count("counted");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        count("counted in a child");
        fflush(stdout);
        _exit(0);
    }
    count("counted beside");
    int status;
    waitpid(child, &status, 0);
    printf("child %d\n", status);

    uint32_t word = 0;
    printf("raw: unlock %d", futex(&word, UNLOCK_PI) == -EPERM);
    long result = futex(&word, LOCK_PI);
    printf(", lock %ld, word %d", result, word == (uint32_t)syscall(SYS_gettid));
    printf(", again %d", futex(&word, LOCK_PI) == -EDEADLK);
    result = futex(&word, UNLOCK_PI);
    printf(", unlock %ld, word %u", result, word);
    word = 0x3ffffff0;
    printf(", nobody's %d", futex(&word, LOCK_PI) == -ESRCH);
    word = 0x40000000;
    result = futex(&word, TRYLOCK_PI);
    printf(", try a dead one's %ld %d", result, (word & 0x40000000) != 0);
    printf(", odd %d\n", syscall(SYS_futex, (char *)&word + 1, LOCK_PI | PRIVATE, 0, 0, 0, 0) < 0 ? errno == EINVAL : -1);
    return 0;
}
