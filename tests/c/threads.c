/* Threads of a static C library: create, join, mutex, condition, thread-local storage, signals to threads, cancellation by exit. cairn-test: cores=4 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 2000 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long counter;
static int turn;
static __thread long own;

static void *count(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&lock);
        counter++;
        pthread_mutex_unlock(&lock);
        own++;
    }
    return (void *)((long)argument * 100 + (own == ROUNDS));
}

static void *take_turns(void *argument) {
    int me = (int)(long)argument;
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&lock);
        while (turn % THREADS != me) {
            pthread_cond_wait(&changed, &lock);
        }
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static pthread_t caught_by;
static void on_signal(int signal) {
    (void)signal;
    caught_by = pthread_self();
}
static sem_t ready;
static void *sleeper(void *unused) {
    sem_post(&ready);
    while (!caught_by) {
        usleep(1000);
    }
    return unused;
}

static void *exits(void *unused) {
    exit(23);
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) {
        int error = pthread_create(&threads[i], NULL, count, (void *)i);
        if (error) {
            printf("pthread_create: %s\n", strerror(error));
            return 1;
        }
    }
    for (long i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        printf("thread %ld: %ld\n", i, (long)result);
    }
    printf("counter %ld\n", counter);
    for (long i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, take_turns, (void *)i);
    }
    for (long i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("turns %d\n", turn);

    signal(SIGUSR1, on_signal);
    sem_init(&ready, 0, 0);
    pthread_create(&threads[0], NULL, sleeper, NULL);
    sem_wait(&ready);
    pthread_kill(threads[0], SIGUSR1);
    pthread_join(threads[0], NULL);
    printf("signal caught by the thread: %d\n", pthread_equal(caught_by, threads[0]) != 0);

    for (int i = 0; i < 300; i++) {
        if (pthread_create(&threads[0], NULL, count, NULL) || pthread_join(threads[0], NULL)) {
            puts("lost a thread");
            return 1;
        }
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_create(&threads[0], NULL, exits, NULL);
        for (;;) {
            pause();
        }
    }
    int status;
    waitpid(pid, &status, 0);
    printf("exit from a thread: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 20000000;
    if (soon.tv_nsec >= 1000000000) {
        soon.tv_nsec -= 1000000000;
        soon.tv_sec++;
    }
    pthread_mutex_lock(&lock);
    printf("timed wait: %s\n", pthread_cond_timedwait(&changed, &lock, &soon) == ETIMEDOUT ? "timed out" : "?");
    pthread_mutex_unlock(&lock);
    return 0;
}
