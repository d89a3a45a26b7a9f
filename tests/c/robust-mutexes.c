/* Robust mutexes in shared memory: whoever takes one whose owner has ended is told so, however that one ended. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct shared {
    pthread_mutex_t first, second;
    int locked;
} *shared;

enum { EXITS, RETURNS_FROM_ITS_THREAD, IS_ABORTED, IS_TERMINATED, EXECUTES, IS_KILLED, IS_ENDED_BY_ANOTHER, WAYS };
static const char *const names[] = {"exits", "its thread ends", "is aborted", "is terminated", "executes", "is killed", "another thread ends it"};

static void check(int error, const char *what) {
    if (error) {
        printf("%s: %s\n", what, strerror(error));
        exit(1);
    }
}

static void *lock_both(void *unused) {
    (void)unused;
    check(pthread_mutex_lock(&shared->first), "first");
    check(pthread_mutex_lock(&shared->second), "second");
    __atomic_store_n(&shared->locked, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void *stay(void *unused) {
    pause();
    return unused;
}

static void *lock_and_stay(void *unused) {
    lock_both(NULL);
    return stay(unused);
}

static void own_and_end(int way, int waits) {
    pthread_t thread;
    if (way == RETURNS_FROM_ITS_THREAD) {
        lock_both(NULL);
        usleep(waits ? 100000 : 0);
        check(pthread_create(&thread, NULL, stay, NULL), "pthread_create");
        pthread_exit(NULL);
    }
    if (way == IS_ENDED_BY_ANOTHER) {
        check(pthread_create(&thread, NULL, lock_and_stay, NULL), "pthread_create");
        while (!__atomic_load_n(&shared->locked, __ATOMIC_SEQ_CST)) {
            usleep(1000);
        }
        usleep(waits ? 100000 : 0);
        _exit(0);
    }
    lock_both(NULL);
    usleep(waits ? 100000 : 0);
    switch (way) {
    case EXITS: _exit(0);
    case IS_ABORTED: abort();
    case IS_TERMINATED: raise(SIGTERM); break;
    case IS_KILLED: raise(SIGKILL); break;
    case EXECUTES: execl("/proc/self/exe", "again", "again", NULL);
    }
    _exit(1);
}

/* `waits`: the other one waits already when the owner ends. */
static void one(int way, int waits) {
    pthread_mutexattr_t attributes;
    struct timespec until;
    shared->locked = 0;
    pthread_mutexattr_init(&attributes);
    check(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), "setpshared");
    check(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST), "setrobust");
    check(pthread_mutex_init(&shared->first, &attributes), "init");
    check(pthread_mutex_init(&shared->second, &attributes), "init");
    pid_t child = fork();
    if (child == 0) {
        own_and_end(way, waits);
    }
    while (!__atomic_load_n(&shared->locked, __ATOMIC_SEQ_CST)) {
        usleep(1000);
    }
    if (!waits) {
        usleep(200000);
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    int first = pthread_mutex_timedlock(&shared->first, &until);
    int second = pthread_mutex_timedlock(&shared->second, &until);
    printf("%s, %s: %s, %s", names[way], waits ? "waited for" : "free", strerror(first), strerror(second));
    if (first == EOWNERDEAD && second == EOWNERDEAD) {
        /* One is mended, the other is of no use any more. */
        check(pthread_mutex_consistent(&shared->first), "consistent");
        pthread_mutex_unlock(&shared->first);
        pthread_mutex_unlock(&shared->second);
        first = pthread_mutex_lock(&shared->first), second = pthread_mutex_lock(&shared->second);
        printf("; then %s, %s", strerror(first), strerror(second));
    }
    printf("\n");
    fflush(stdout);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1) {
        return 0;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    for (int way = 0; way < WAYS; way++) {
        one(way, 0);
        one(way, 1);
    }
    return 0;
}
