/* The scheduler of threads with deadlines is ended beneath them and started again: they go on, so does everybody else, others get in, and who ends a period of
   its own accord is known to the new one from then on. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static long set(int pid, uint64_t runtime, uint64_t period) {
    struct attributes a = {sizeof a, 6, 0, 0, 0, runtime, period, period};
    return syscall(SYS_sched_setattr, pid, &a, 0);
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 * MS + t.tv_nsec;
}

static void rest(uint64_t ns) {
    struct timespec t = {ns / (1000 * MS), ns % (1000 * MS)};
    nanosleep(&t, NULL);
}

static volatile uint64_t *counts;

static int child(int at, int yields) {
    int pid = fork();
    while (pid == 0) {
        ++counts[at];
        if (yields) {
            sched_yield();
        }
    }
    return pid;
}

/* Do all three go on? */
static void look(const char *when) {
    uint64_t before[3];
    for (int i = 0; i < 3; i++) {
        before[i] = counts[i];
    }
    rest(500 * MS);
    printf("%s: greedy %s, ordinary %s, ", when, counts[0] > before[0] ? "goes on" : "stands", counts[1] > before[1] ? "goes on" : "stands");
    uint64_t periods = counts[2] - before[2];
    printf("%s\n", 8 <= periods && periods <= 12 ? "ten periods" : "not ten periods");
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int all[3];
    for (int i = 0; i < 3; i++) {
        all[i] = child(i, i == 2);
    }
    printf("set: %ld %ld\n", set(all[0], 40 * MS, 100 * MS), set(all[2], 10 * MS, 50 * MS));
    look("at first");
    int ended = system("PATH=$PATH:/usr/local/sbin cairn-ctl restart deadline");
    printf("ended: %d\n", ended);
    look("afterwards");
    /* It knows one of them: 20 of 100 are given away. */
    printf("too much: %ld\n", set(0, 80 * MS, 100 * MS));
    printf("as much as there is: %ld\n", set(0, 70 * MS, 100 * MS));
    printf("the greedy one has nothing there: %ld\n", set(all[0], 40 * MS, 100 * MS));
    struct sched_param none = {0};
    printf("left: %ld\n", syscall(SYS_sched_setscheduler, 0, 0, &none));
    printf("and is let in again: %ld\n", set(all[0], 40 * MS, 100 * MS));
    look("at last");
    for (int i = 0; i < 3; i++) {
        kill(all[i], SIGKILL);
        waitpid(all[i], NULL, 0);
    }
    printf("nearly all: %ld\n", set(0, 95 * MS, 100 * MS));
    return 0;
}
