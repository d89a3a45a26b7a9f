/* What a disk gives, in wall time: one static program, run on Cairn and on Linux in the same virtual machine (`./cairn bench disk`).
 *
 *     disk DEVICE SAMPLES        (0: it is read once, so that the host has it in memory)
 * reads the device past any cache (O_DIRECT, which Cairn needs none of): in order, 1 MiB at a time, from its beginning to its end; and 4 KiB at random places, 32 threads with one read each under way.
 * Each sample is a line `NAME RATE`: MiB a second, reads a second. What is read is looked at: page n of the disk begins with the number n.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, LONG = 1 << 20, THREADS = 32, READS = 400 };

static int disk;
static uint64_t pages;
static char *buffers;

static void fail(const char *what) {
    fprintf(stderr, "disk: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Read and look at the numbers. */
static void get(char *into, size_t length, uint64_t page) {
    ssize_t got = pread(disk, into, length, page * PAGE);
    if (got != (ssize_t)length) {
        errno = got < 0 ? errno : EIO;
        fail("read");
    }
    for (size_t i = 0; i < length / PAGE; i++) {
        if (*(uint64_t *)(into + i * PAGE) != page + i) {
            errno = EIO;
            fail("the wrong page came");
        }
    }
}

static void in_order(void) {
    double start = now();
    uint64_t page = 0;
    for (; page + LONG / PAGE <= pages; page += LONG / PAGE) {
        get(buffers, LONG, page);
    }
    printf("disk-read-1m %.0f\n", page * (double)PAGE / LONG / (now() - start));
}

static void *wander(void *argument) {
    uintptr_t number = (uintptr_t)argument;
    uint64_t seed = number * 0x9e3779b97f4a7c15 + 1;
    for (int i = 0; i < READS; i++) {
        seed = seed * 6364136223846793005 + 1442695040888963407;
        get(buffers + number * PAGE, PAGE, (seed >> 33) % pages);
    }
    return NULL;
}

static void at_random(void) {
    pthread_t threads[THREADS];
    double start = now();
    for (uintptr_t i = 0; i < THREADS; i++) {
        if ((errno = pthread_create(&threads[i], NULL, wander, (void *)i))) {
            fail("thread");
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("disk-random-4k-32 %.0f\n", THREADS * READS / (now() - start));
}

int main(int argc, char **argv) {
    if (argc != 3 || (disk = open(argv[1], O_RDONLY | O_DIRECT)) < 0) {
        fail("usage: disk DEVICE SAMPLES");
    }
    pages = lseek(disk, 0, SEEK_END) / PAGE;
    if (posix_memalign((void **)&buffers, LONG, LONG)) {
        fail("memory");
    }
    memset(buffers, 1, LONG);
    int samples = atoi(argv[2]);
    for (uint64_t page = 0; samples == 0 && page + LONG / PAGE <= pages; page += LONG / PAGE) {
        get(buffers, LONG, page);
    }
    for (int i = 0; i < samples; i++) {
        in_order();
        at_random();
        fflush(stdout);
    }
    return 0;
}
