/* Futexes between processes: requeueing, FUTEX_WAKE_OP and bits. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* As in <linux/futex.h>, which not every C library has. */
enum { FUTEX_WAKE = 1, FUTEX_REQUEUE = 3, FUTEX_CMP_REQUEUE, FUTEX_WAKE_OP, FUTEX_WAIT_BITSET = 9, FUTEX_WAKE_BITSET };
#define SET_AND_WAKE_IF_EQUAL(value, old) ((value) << 12 | (old))

enum { WAITERS = 20 };

static uint32_t *words;

static long futex(uint32_t *word, int operation, uint32_t value, uintptr_t timeout, uint32_t *second, uint32_t third) {
    long result = syscall(SYS_futex, word, operation, value, timeout, second, third);
    return result < 0 ? -errno : result;
}

static void wait_until_all_wait(pid_t *children) {
    for (int i = 0; i < WAITERS; i++) {
        for (char state = 0; state != 'S';) {
            char path[64];
            snprintf(path, sizeof path, "/proc/%d/stat", children[i]);
            FILE *file = fopen(path, "r");
            if (file == NULL || fscanf(file, "%*d (%*[^)]) %c", &state) != 1) {
                printf("no state of %d\n", children[i]);
                exit(1);
            }
            fclose(file);
            usleep(1000);
        }
    }
    /* (One may have slept in another call.) */
    usleep(50000);
}

/* Children that wait for the first word, each with a bit of its own; they end with 0 when they are woken and with 1 when their time is up. */
static void begin(pid_t *children, int milliseconds) {
    for (int i = 0; i < WAITERS; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct timespec until;
            clock_gettime(CLOCK_MONOTONIC, &until);
            until.tv_sec += milliseconds / 1000, until.tv_nsec += milliseconds % 1000 * 1000000;
            until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
            long result = futex(words, FUTEX_WAIT_BITSET, 0, (uintptr_t)&until, NULL, 1u << i);
            _exit(result == 0 ? 0 : result == -ETIMEDOUT ? 1 : 2);
        }
    }
    wait_until_all_wait(children);
}

static void end(const char *what) {
    int counts[3] = {0}, status;
    while (wait(&status) > 0) {
        counts[WEXITSTATUS(status) % 3]++;
    }
    printf("%s: %d woken, %d late, %d others\n", what, counts[0], counts[1], counts[2]);
}

int main(void) {
    pid_t children[WAITERS];
    words = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint32_t *second = words + 1024, own = 0;
    begin(children, 600000);
    printf("another value: %ld\n", futex(words, FUTEX_CMP_REQUEUE, 1, 1, second, 1));
    printf("compare and requeue: %ld\n", futex(words, FUTEX_CMP_REQUEUE, 3, 7, second, 0));
    printf("of those moved: %ld\n", futex(second, FUTEX_WAKE, INT_MAX, 0, NULL, 0));
    printf("requeue: %ld\n", futex(words, FUTEX_REQUEUE, 0, 4, second, 0));
    printf("of those left, by a bit that none has: %ld\n", futex(words, FUTEX_WAKE_BITSET, INT_MAX, 0, NULL, 1u << 31));
    printf("of those left: %ld\n", futex(words, FUTEX_WAKE, INT_MAX, 0, NULL, 0));
    printf("of those moved: %ld\n", futex(second, FUTEX_WAKE, INT_MAX, 0, NULL, 0));
    end("requeued");
    begin(children, 600000);
    printf("by two bits: %ld\n", futex(words, FUTEX_WAKE_BITSET, INT_MAX, 0, NULL, 1u << 3 | 1u << 17));
    printf("by no bit: %ld\n", futex(words, FUTEX_WAKE_BITSET, INT_MAX, 0, NULL, 0));
    printf("moved: %ld\n", futex(words, FUTEX_CMP_REQUEUE, 0, 8, second, 0));
    /* The second word becomes 5; it was 0, so those who wait for it are woken, too. */
    int operation = SET_AND_WAKE_IF_EQUAL(5, 0);
    printf("wake by operation: %ld\n", futex(words, FUTEX_WAKE_OP, 2, INT_MAX, second, operation));
    printf("the word: %u\n", *second);
    printf("again: %ld\n", futex(words, FUTEX_WAKE_OP, 2, INT_MAX, second, operation));
    printf("the rest: %ld\n", futex(words, FUTEX_WAKE, INT_MAX, 0, NULL, 0));
    end("by operation");
    begin(children, 1500);
    printf("moved: %ld\n", futex(words, FUTEX_CMP_REQUEUE, 0, 12, second, 0));
    end("in time");
    printf("nobody is left: %ld %ld\n", futex(words, FUTEX_WAKE, INT_MAX, 0, NULL, 0), futex(second, FUTEX_WAKE, INT_MAX, 0, NULL, 0));
    /* One who was moved and is killed; nobody wakes for him. */
    begin(children, 600000);
    futex(words, FUTEX_CMP_REQUEUE, 0, INT_MAX, second, 0);
    for (int i = 0; i < WAITERS; i += 2) {
        kill(children[i], 9);
    }
    for (int i = 0; i < WAITERS; i += 2) {
        waitpid(children[i], NULL, 0);
    }
    printf("of those who live: %ld\n", futex(second, FUTEX_WAKE, INT_MAX, 0, NULL, 0));
    end("half of them killed");
    printf("wrong: %ld %ld %ld\n", futex(words, FUTEX_CMP_REQUEUE, 0, 1, (uint32_t *)((char *)second + 1), 0), futex(words, FUTEX_WAKE_OP, 1, 1, (uint32_t *)2, 0),
           futex(words, FUTEX_WAKE_OP, 1, 1, (uint32_t *)4096, operation));
    /* A word of this process and one of all. */
    printf("none moves to a word of one's own: %ld\n", futex(words, FUTEX_REQUEUE, 0, 1, &own, 0));
    return 0;
}
