/* Threads that end with robust mutexes with priority inheritance for which others wait, and come to wait just then: each is had by the next one, who is told that its owner ended. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MUTEXES = 400, ROUNDS = 20 };
static pthread_mutex_t mutexes[MUTEXES];
static pthread_barrier_t taken, over;
static int told[MUTEXES];

static void check(int error, const char *what) {
    if (error) {
        printf("%s: %s\n", what, strerror(error));
        exit(1);
    }
}

static void *wait_for_one(void *which) {
    long number = (long)which;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&taken);
        // Some are there before the owner ends, others come meanwhile.
        struct timespec rest = {0, number % 3 == 0 ? 0 : 30000 * (number % 7)};
        nanosleep(&rest, NULL);
        int error = pthread_mutex_lock(&mutexes[number]);
        if (error == EOWNERDEAD) {
            told[number]++;
            error = pthread_mutex_consistent(&mutexes[number]);
        }
        check(error, "lock");
        check(pthread_mutex_unlock(&mutexes[number]), "unlock");
        pthread_barrier_wait(&over);
    }
    return NULL;
}

static void *take_all(void *unused) {
    for (int i = 0; i < MUTEXES; i++) {
        check(pthread_mutex_lock(&mutexes[i]), "first lock");
    }
    pthread_barrier_wait(&taken);
    struct timespec rest = {0, 100000};
    nanosleep(&rest, NULL);
    return unused;
}

int main(void) {
    pthread_mutexattr_t kind;
    pthread_attr_t small;
    pthread_t threads[MUTEXES], owner;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    pthread_barrier_init(&taken, NULL, MUTEXES + 1);
    pthread_barrier_init(&over, NULL, MUTEXES + 1);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (long i = 0; i < MUTEXES; i++) {
        check(pthread_mutex_init(&mutexes[i], &kind), "init");
        check(pthread_create(&threads[i], &small, wait_for_one, (void *)i), "create");
    }
    for (int round = 0; round < ROUNDS; round++) {
        check(pthread_create(&owner, &small, take_all, NULL), "create");
        check(pthread_join(owner, NULL), "join");
        pthread_barrier_wait(&over);
    }
    int all = 1;
    for (int i = 0; i < MUTEXES; i++) {
        pthread_join(threads[i], NULL);
        all &= told[i] == ROUNDS;
    }
    printf("each was told each time: %s\n", all ? "yes" : "no");
    return 0;
}
