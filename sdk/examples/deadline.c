/*
 * A Linux program that keeps a deadline, and proves it: `deadline PRIORITY` wakes every millisecond, 1,000 times, as SCHED_FIFO with this priority
 * (0: as an ordinary program), and tells by how much the latest wake-up was late. docs/guide/real-time.md goes through it.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { PERIOD = 1000000, TURNS = 1000, SECOND = 1000000000 };

int main(int argc, char **argv)
{
    struct sched_param how = { .sched_priority = argc > 1 ? atoi(argv[1]) : 80 };
    if (how.sched_priority && sched_setscheduler(0, SCHED_FIFO, &how)) {
        perror("sched_setscheduler");
        return 1;
    }
    if (mlockall(MCL_CURRENT | MCL_FUTURE)) {
        perror("mlockall");
        return 1;
    }
    struct timespec next, now;
    long latest = 0;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (int turn = 0; turn < TURNS; turn++) {
        next.tv_nsec += PERIOD;
        if (next.tv_nsec >= SECOND) {
            next.tv_nsec -= SECOND;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
        long late = (now.tv_sec - next.tv_sec) * SECOND + now.tv_nsec - next.tv_nsec;
        if (late > latest)
            latest = late;
        /* The work of this turn would be here. */
    }
    printf("priority %d: %d turns, the latest %ld ns late\n", how.sched_priority, TURNS, latest);
    return 0;
}
