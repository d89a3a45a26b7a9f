/* In which order those who wait for one word are woken: by real-time priority, then by arrival; threads and processes, and after some were moved to another word. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* As in <linux/futex.h>, which not every C library has. */
enum { FUTEX_WAIT, FUTEX_WAKE, FUTEX_REQUEUE = 3, FUTEX_PRIVATE_FLAG = 128 };

/* Priorities in order of arrival; 0 is an ordinary thread. */
static const int priorities[] = {0, 10, 50, 0, 99, 10, 50, 1};
enum { WAITERS = sizeof priorities / sizeof *priorities };

struct shared {
    uint32_t words[2];
    uint32_t arrived, woken;
    int order[WAITERS];
};
static struct shared *shared;
static int private;

static long futex(uint32_t *word, int operation, uint32_t value, uintptr_t count) {
    return syscall(SYS_futex, word, operation | private, value, count, &shared->words[1], 0);
}

static void check(int wrong, const char *what) {
    if (wrong) {
        perror(what);
        exit(1);
    }
}

static void wait_here(int index) {
    __atomic_fetch_add(&shared->arrived, 1, __ATOMIC_SEQ_CST);
    futex(&shared->words[0], FUTEX_WAIT, 0, 0);
    shared->order[__atomic_fetch_add(&shared->woken, 1, __ATOMIC_SEQ_CST)] = index;
}

static void *thread(void *argument) {
    int index = (int)(intptr_t)argument;
    struct sched_param parameters = {.sched_priority = priorities[index]};
    check(priorities[index] && pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters), "pthread_setschedparam");
    wait_here(index);
    return NULL;
}

static void until(uint32_t *count, uint32_t value) {
    while (__atomic_load_n(count, __ATOMIC_SEQ_CST) != value) {
        usleep(1000);
    }
}

/* The last one has arrived; a moment later it waits. */
static void arrived(int index) {
    until(&shared->arrived, index + 1);
    usleep(30000);
}

static void wake_all(const char *what) {
    int count = 0;
    /* Two are moved, and woken there at the end. */
    printf("%s: moved %ld:", what, futex(&shared->words[0], FUTEX_REQUEUE, 0, 2));
    for (int word = 0; word < 2; word++) {
        while (futex(&shared->words[word], FUTEX_WAKE, 1, 0) == 1) {
            until(&shared->woken, ++count);
        }
    }
    for (int i = 0; i < count; i++) {
        printf(" %d(%d)", shared->order[i], priorities[shared->order[i]]);
    }
    printf("\n");
}

static void threads(void) {
    pthread_t all[WAITERS];
    private = FUTEX_PRIVATE_FLAG;
    for (intptr_t i = 0; i < WAITERS; i++) {
        check(pthread_create(&all[i], NULL, thread, (void *)i), "pthread_create");
        arrived(i);
    }
    wake_all("threads");
    for (int i = 0; i < WAITERS; i++) {
        pthread_join(all[i], NULL);
    }
}

/* Each gets its priority from its parent, before it waits. */
static void processes(void) {
    private = 0;
    for (int i = 0; i < WAITERS; i++) {
        int go[2];
        char byte = 0;
        check(pipe(go), "pipe");
        pid_t child = fork();
        if (child == 0) {
            check(read(go[0], &byte, 1) != 1, "read");
            wait_here(i);
            _exit(0);
        }
        struct sched_param parameters = {.sched_priority = priorities[i]};
        check(priorities[i] && sched_setscheduler(child, SCHED_FIFO, &parameters), "sched_setscheduler");
        check(write(go[1], &byte, 1) != 1, "write");
        close(go[0]), close(go[1]);
        arrived(i);
    }
    wake_all("processes");
    while (wait(NULL) > 0) {
    }
}

/* A program that got its priority before it was executed, and whose threads have their creator's. */
static void *inherits(void *argument) {
    wait_here((int)(intptr_t)argument);
    return NULL;
}

static void executed(void) {
    pthread_t all[3];
    private = FUTEX_PRIVATE_FLAG;
    for (intptr_t i = 0; i < 3; i++) {
        struct sched_param parameters = {.sched_priority = i == 1 ? 20 : 0};
        check(i && sched_setscheduler(0, i == 1 ? SCHED_FIFO : SCHED_OTHER, &parameters), "sched_setscheduler");
        check(pthread_create(&all[i], NULL, inherits, (void *)i), "pthread_create");
        arrived(i);
    }
    wake_all("executed");
    for (int i = 0; i < 3; i++) {
        pthread_join(all[i], NULL);
    }
}

int main(int count, char **arguments) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(shared == MAP_FAILED, "mmap");
    if (count > 1) {
        executed();
        return 0;
    }
    threads();
    fflush(stdout);
    *shared = (struct shared){0};
    processes();
    fflush(stdout);
    struct sched_param parameters = {.sched_priority = 10};
    check(sched_setscheduler(0, SCHED_FIFO, &parameters), "sched_setscheduler");
    execl("/proc/self/exe", arguments[0], "again", NULL);
    return 1;
}
