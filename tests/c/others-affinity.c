/* The cores that others run on: a thread of this process, of another, and with attributes of pthread_create. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile pid_t number;
static pthread_barrier_t ends;

static const char *result(long value) {
    return value >= 0 ? "ok" : strerror(errno);
}

static void *waits(void *unused) {
    number = syscall(SYS_gettid);
    pthread_barrier_wait(&ends);
    return unused;
}

static void ask(const char *who, pid_t of) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(0, &cores);
    printf("%s: set %s", who, result(sched_setaffinity(of, sizeof cores, &cores)));
    printf(", get %s, policy %s\n", result(sched_getaffinity(of, sizeof cores, &cores)), result(sched_getscheduler(of)));
}

int main(void) {
    cpu_set_t cores;
    pthread_attr_t attributes;
    struct sched_param parameters = {.sched_priority = 5};
    pthread_t thread;
    int told[2], status;
    CPU_ZERO(&cores);
    CPU_SET(0, &cores);
    pthread_barrier_init(&ends, NULL, 2);
    pthread_create(&thread, NULL, waits, NULL);
    while (number == 0)
        sched_yield();
    ask("a thread", number);
    pthread_barrier_wait(&ends);
    pthread_join(thread, NULL);

    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &parameters);
#ifdef __GLIBC__
    pthread_attr_setaffinity_np(&attributes, sizeof cores, &cores);
#endif
    printf("with attributes: %s\n", strerror(pthread_create(&thread, &attributes, waits, NULL)));
    pthread_barrier_wait(&ends);
    pthread_join(thread, NULL);

    pipe(told);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        number = 0;
        pthread_create(&thread, NULL, waits, NULL);
        while (number == 0)
            sched_yield();
        write(told[1], (void *)&number, sizeof number);
        pause();
    }
    pid_t other;
    read(told[0], &other, sizeof other);
    ask("a child", child);
    ask("its thread", other);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    ask("nobody", child);
    return 0;
}
