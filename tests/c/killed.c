/* Processes that open, write, map, copy and drop files are killed at any moment, some of them while another takes all memory: afterwards the file system has what it had, and as
 * many blocks can be written as before. Usage: killed [ROUNDS [SEED]]. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t state = 20261121;
static uint64_t next(uint64_t most) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % most;
}

static char block[1 << 16];

/* A file without a name: made with one that is taken away, or never given one. */
static int nameless(void) {
    char name[64];
    snprintf(name, sizeof name, "/tmp/killed-%d-%d", (int)getppid(), (int)next(4));
    switch (next(3)) {
    case 0: return open("/tmp", O_RDWR | O_TMPFILE, 0600);
    case 1: return memfd_create("killed", 0);
    }
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    unlink(name);
    return fd;
}

static void *busy(void *unused) {
    for (;;) {
        int fd = nameless(), zero = open("/dev/zero", O_RDONLY);
        off_t at = (off_t)next(1 << 20);
        pwrite(fd, block, next(sizeof block), at);
        switch (next(6)) {
        case 0: fallocate(fd, 0, at, 1 << 18); break;
        case 1: ftruncate(fd, (off_t)next(1 << 20)); break;
        case 2: sendfile(fd, zero, NULL, 1 << 18); break;
        case 3: {
            char *map = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (map != MAP_FAILED && ftruncate(fd, 1 << 16) == 0) {
                memset(map, 1, 1 << 15);
                munmap(map, next(2) << 16);
            }
            break;
        }
        case 4: close(dup(fd)); break;
        }
        if (next(2)) {
            close(fd);
            close(zero);
        }
        if (next(64) == 0) {
            for (int other = 3; other < 64; other++) {
                close(other);
            }
        }
    }
    return unused;
}

static void writer(void) {
    pthread_t thread;
    memset(block, 7, sizeof block);
    if (next(2)) {
        pthread_create(&thread, NULL, busy, NULL);
    }
    busy(NULL);
}

static void hog(void) {
    for (;;) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) {
            _exit(9);
        }
        memset(p, 1, 1 << 20);
    }
}

static long used(void) {
    struct statvfs fs;
    return statvfs("/tmp", &fs) < 0 ? -1 : (long)(fs.f_blocks - fs.f_bfree);
}

/* What is dropped may be counted a little later. */
static long used_at_last(long wanted) {
    for (int i = 0; i < 2000 && used() > wanted; i++) {
        usleep(1000);
    }
    return used();
}

static pid_t begin(void (*what)(void)) {
    fflush(stdout);
    next(2);
    pid_t pid = fork();
    if (pid == 0) {
        what();
        _exit(1);
    }
    return pid;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 300;
    state = argc > 2 ? strtoull(argv[2], NULL, 0) | 1 : state;
    long before = used();
    for (int round = 0; round < rounds; round++) {
        pid_t writers[2] = {begin(writer), begin(writer)};
        pid_t greedy = round % 100 == 50 ? begin(hog) : 0;
        usleep(next(6000));
        if (greedy > 0) {
            waitpid(greedy, NULL, 0);
        }
        for (int i = 0; i < 2; i++) {
            if (writers[i] > 0) {
                kill(writers[i], SIGKILL);
                waitpid(writers[i], NULL, 0);
            }
        }
    }
    long after = used_at_last(before);
    if (after > before) {
        printf("%ld blocks are used, %ld were\n", after, before);
    }
    /* And there is room. */
    int fd = open("/tmp/killed", O_RDWR | O_CREAT | O_TRUNC, 0600), bad = 0;
    for (int i = 0; i < 64; i++) {
        bad += write(fd, block, sizeof block) != sizeof block;
    }
    close(fd);
    unlink("/tmp/killed");
    printf("%d writes failed\n", bad);
    return 0;
}
