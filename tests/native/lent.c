/* Long reads and writes of a disk, which the device does in the program's own memory: any place and length, memory that is no good for that, and forks, unmappings, signals and death in the middle of it.
 *
 *     lent DEVICE
 * overwrites the first 2.5 MiB. Prints "good". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, SIZE = 5 << 19, AROUND = 2 * PAGE };

static int disk;
static unsigned char *model;

static void fail(const char *what, long value) {
    printf("%s: %ld (%s)\n", what, value, strerror(errno));
    fflush(stdout);
    _exit(1);
}

static unsigned char *memory(size_t length, int prot, int flags) {
    unsigned char *p = mmap(NULL, length, prot, flags | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        fail("mmap", length);
    }
    return p;
}

static uint32_t seed = 1;
static uint32_t chance(void) { return seed = seed * 1664525 + 1013904223, seed >> 8; }

/* At any place, of any length, to any address: the disk is as the model says, and nothing around the memory is touched. */
static void places(void) {
    unsigned char *p = memory(SIZE + 2 * AROUND, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    for (int i = 0; i < 60; i++) {
        size_t unit = i % 3 ? 512 : 1, shift = chance() % AROUND / unit * unit;
        size_t offset = chance() % (SIZE / 2) / unit * unit, length = (chance() % (SIZE / 2) + 1) / unit * unit;
        unsigned char *at = p + AROUND + shift;
        memset(p, i, SIZE + 2 * AROUND);
        if (i % 2) {
            for (size_t k = 0; k < length; k++) {
                model[offset + k] = at[k] = k * 7 + i + k / 977;
            }
            long got = pwrite(disk, at, length, offset);
            if (got != (long)length) {
                fail("write", got);
            }
        } else {
            long got = pread(disk, at, length, offset);
            if (got != (long)length || memcmp(at, model + offset, length)) {
                fail("read", got);
            }
            for (size_t k = 0; k < SIZE + 2 * AROUND; k++) {
                if ((p + k < at || p + k >= at + length) && p[k] != (unsigned char)i) {
                    fail("beside what was read", k);
                }
            }
        }
    }
    munmap(p, SIZE + 2 * AROUND);
}

/* Memory that cannot be lent: shared, read-only, with a hole, beyond the end of the address space. */
static void others(void) {
    unsigned char *p = memory(1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED);
    if (pread(disk, p, 1 << 20, 512) != 1 << 20 || memcmp(p, model + 512, 1 << 20)) {
        fail("shared memory", 0);
    }
    munmap(p, 1 << 20);
    p = memory(1 << 20, PROT_READ, MAP_PRIVATE);
    errno = 0;
    long got = pread(disk, p, 1 << 20, 0);
    if (got != -1 || errno != EFAULT || p[0] || p[(1 << 20) - 1]) {
        fail("read-only memory", got);
    }
    memset(model, 0, 1 << 20);
    if ((got = pwrite(disk, p, 1 << 20, 0)) != 1 << 20) {
        fail("write from read-only memory", got);
    }
    munmap(p, 1 << 20);
    p = memory(1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    munmap(p + (1 << 19), PAGE);
    got = pread(disk, p, 1 << 20, SIZE / 2);
    if (got > 1 << 19 || got == 0 || (got == -1 && errno != EFAULT)) {
        fail("a hole", got);
    }
    if (got > 0 && memcmp(p, model + SIZE / 2, got)) {
        fail("before a hole", got);
    }
    munmap(p, 1 << 20);
    got = pread(disk, (void *)0x7ffffffff000, 1 << 20, 0);
    if (got != -1 || errno != EFAULT) {
        fail("no memory", got);
    }
    /* Across the end of the disk. */
    off_t end = lseek(disk, 0, SEEK_END);
    p = memory(1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    if ((got = pread(disk, p, 1 << 20, end - 70 * 512)) != 70 * 512) {
        fail("the end", got);
    }
    munmap(p, 1 << 20);
}

static atomic_int stop;
static unsigned char *target;

static void *reads(void *unused) {
    for (long i = 0; !stop; i++) {
        memset(target, 0x55, SIZE);
        if (pread(disk, target, SIZE, 0) != SIZE) {
            fail("read beside forks", i);
        }
        if (memcmp(target, model, SIZE)) {
            fail("what was read beside forks", i);
        }
    }
    return unused;
}

static unsigned long sum(const unsigned char *p) {
    unsigned long sum = 0;
    for (size_t i = 0; i < SIZE; i += 64) {
        sum = sum * 31 + p[i];
    }
    return sum;
}

/* A child has what its parent had at that moment, whatever the device does to the parent's memory afterwards. */
static void forks(void) {
    pthread_t thread;
    target = memory(SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    pthread_create(&thread, NULL, reads, NULL);
    for (int i = 0; i < 20; i++) {
        usleep(chance() % 3000);
        pid_t child = fork();
        if (child == 0) {
            unsigned long before = sum(target);
            usleep(3000);
            _exit(sum(target) != before);
        }
        int status = -1;
        if (child < 0 || waitpid(child, &status, 0) != child || status) {
            fail("child", status);
        }
    }
    stop = 1;
    pthread_join(thread, NULL);
}

static void *unmaps(void *unused) {
    usleep(chance() % 400);
    munmap(target, SIZE);
    unsigned char *p = mmap(target, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    memset(p, 1, PAGE);
    return unused;
}

static void unmapping(void) {
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        target = memory(SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
        pthread_create(&thread, NULL, unmaps, NULL);
        long got = pread(disk, target, SIZE, 0);
        pthread_join(thread, NULL);
        if (got == 0 || (got < 0 && errno != EFAULT)) {
            fail("unmapped", got);
        }
        munmap(target, SIZE);
    }
}

static void heard(int signal) { (void)signal; }

/* Signals do not end a disk's reads, and a killed program's memory is nobody's business. */
static void interrupted(void) {
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = heard};
    sigaction(SIGALRM, &action, NULL);
    unsigned char *p = memory(SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 50; i++) {
        long got = pread(disk, p, SIZE, 0);
        if (got != SIZE || memcmp(p, model, SIZE)) {
            fail("interrupted", got);
        }
    }
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (;;) {
                pread(disk, p, SIZE, 0);
            }
        }
        usleep(chance() % 3000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        unsigned char *fresh = memory(SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
        for (size_t k = 0; k < SIZE; k += PAGE) {
            if (fresh[k]) {
                fail("fresh memory", k);
            }
        }
        munmap(fresh, SIZE);
    }
    munmap(p, SIZE);
}

enum { PART = 256 << 10 };
static unsigned char own[PART] __attribute__((aligned(PAGE)));

static void get(unsigned char *p, size_t length) {
    size_t offset = chance() % (SIZE - PART) / 512 * 512;
    memset(p, 0xcc, length);
    long got = pread(disk, p, length, offset);
    if (got != (long)length || memcmp(p, model + offset, length)) {
        fail("read again", got);
    }
}

static void anew(unsigned char *p, int prot) {
    if (mmap(p, PART, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != p) {
        fail("mmap in place", 0);
    }
}

static void ended(pid_t child) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status) {
        fail("a child", status);
    }
}

/* The same memory again and again, and other memory at the same address. */
static void again(char **argv) {
    unsigned char *p = memory(PART, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    unsigned char *other = memory(PART, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    for (int round = 0; round < 12; round++) {
        get(p, PART);
        get(p, PART);
        get(p + 3 * PAGE + 512, 128 << 10);
        get(other, PART);
        switch (round) {
        case 0: /* other memory */
            anew(p, PROT_READ | PROT_WRITE);
            break;
        case 1:
            madvise(p, PART, MADV_DONTNEED);
            break;
        case 2: { /* not to be written, and nothing is */
            mprotect(p, PART, PROT_READ);
            unsigned char first = p[0];
            memset(own, first ^ 1, PART);
            if (pread(disk, p, PART, 0) != -1 || errno != EFAULT || p[0] != first) {
                fail("read-only again", 0);
            }
            mprotect(p, PART, PROT_READ | PROT_WRITE);
            break;
        }
        case 3: /* it moves, and other memory takes its place */
            if (mremap(p, PART, PART, MREMAP_MAYMOVE | MREMAP_FIXED, other) != other) {
                fail("mremap", 0);
            }
            anew(p, PROT_READ | PROT_WRITE);
            break;
        case 4: /* nothing there */
            munmap(p, PART);
            if (pread(disk, p, PART, 0) != -1 || errno != EFAULT) {
                fail("a hole again", 0);
            }
            anew(p, PROT_READ | PROT_WRITE);
            break;
        case 5:
        case 6: { /* a copy has its own; its parent's stays */
            unsigned char before[64];
            memcpy(before, p, 64);
            pid_t child = fork();
            if (child == 0) {
                get(p, PART);
                get(p, PART);
                _exit(0);
            }
            if (round == 5) {
                get(p, PART);
                memcpy(before, p, 64);
            }
            ended(child);
            if (memcmp(p, before, 64)) {
                fail("a child's read", 0);
            }
            break;
        }
        case 7: { /* shared memory for a moment */
            size_t offset = 5 * 512;
            pid_t child = vfork();
            if (child == 0) {
                _exit(pread(disk, p, PART, offset) != PART);
            }
            ended(child);
            if (memcmp(p, model + offset, PART)) {
                fail("vfork's read", 0);
            }
            break;
        }
        case 8: { /* by another descriptor, with the number of the one before */
            int next = dup(disk);
            close(disk);
            disk = open(argv[1], O_RDWR | O_SYNC);
            get(p, PART);
            close(next);
            break;
        }
        case 9: /* longer than it is kept */
            sleep(3);
            break;
        case 10: { /* written from there */
            size_t offset = 7 * 512;
            for (int i = 0; i < 3; i++) {
                for (size_t k = 0; k < PART; k++) {
                    model[offset + k] = p[k] = k * 13 + i + k / 511;
                }
                if (pwrite(disk, p, PART, offset) != PART || pread(disk, other, PART, offset) != PART || memcmp(p, other, PART)) {
                    fail("write again", i);
                }
            }
            break;
        }
        case 11: { /* another program at the same address */
            get(own, PART);
            pid_t child = fork();
            if (child == 0) {
                get(own, PART);
                execl("/proc/self/exe", argv[0], argv[1], "anew", NULL);
                _exit(9);
            }
            ended(child);
        }
        }
    }
    munmap(p, PART);
    munmap(other, PART);
}

int main(int argc, char **argv) {
    if (argc == 3) {
        disk = open(argv[1], O_RDWR);
        model = memory(SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
        for (size_t k = 0; k < SIZE; k += 1 << 14) {
            if (pread(disk, model + k, 1 << 14, k) != 1 << 14) {
                fail("short reads", k);
            }
        }
        get(own, PART);
        get(own, PART);
        return 0;
    }
    if (argc != 2 || (disk = open(argv[1], O_RDWR | O_SYNC)) < 0) {
        fail("usage: lent DEVICE", argc);
    }
    model = memory(SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    for (size_t i = 0; i < SIZE; i++) {
        model[i] = i * 3 + i / 1000;
    }
    if (pwrite(disk, model, SIZE, 0) != SIZE) {
        fail("write", 0);
    }
    places();
    others();
    if (pread(disk, model, SIZE, 0) != SIZE) {
        fail("read", 0);
    }
    again(argv);
    forks();
    unmapping();
    interrupted();
    puts("good");
    return 0;
}
