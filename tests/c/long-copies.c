/* Writes and reads of all lengths, from and to all places in a page, while a timer and a disk interrupt all the time: every byte arrives, and the vector registers are after each call as before, with
 * and without upper halves. cairn-test: disk=32M */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 80000, LONGEST = 20000, ROUNDS = 4000, VECTORS = 16, VECTOR = 32 };

static unsigned char model[MOST], bytes[LONGEST + 4096];
static unsigned random_state = 20261123;
static volatile long alarms;

static unsigned next_random(unsigned below) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

static void alarmed(int signal) {
    (void)signal;
    alarms++;
}

static void fail(const char *what, long is, long should) {
    printf("%s is %ld, not %ld (%s)\n", what, is, should, strerror(errno));
    fflush(stdout);
    _exit(1);
}

/* A call of the system with these vector registers, which may not change. */
__attribute__((target("avx"))) static long with_vectors(long call, long fd, void *at, long length, long offset, int upper) {
    unsigned char before[VECTORS * VECTOR], after[VECTORS * VECTOR];
    for (unsigned i = 0; i < sizeof before; i++) {
        before[i] = upper || i % VECTOR < VECTOR / 2 ? next_random(256) : 0;
    }
    register long fourth __asm__("r10") = offset;
    register unsigned char *in __asm__("r12") = before;
    register unsigned char *out __asm__("r13") = after;
#define EACH(what) what(0) what(1) what(2) what(3) what(4) what(5) what(6) what(7) what(8) what(9) what(10) what(11) what(12) what(13) what(14) what(15)
#define LOAD(n) "vmovdqu 32*" #n "(%%r12), %%ymm" #n "\n"
#define LOAD_LOWER(n) "vmovdqu 32*" #n "(%%r12), %%xmm" #n "\n"
#define STORE(n) "vmovdqu %%ymm" #n ", 32*" #n "(%%r13)\n"
#define CLOBBERED "rcx", "r11", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
    if (upper) {
        __asm__ volatile(EACH(LOAD) "syscall\n" EACH(STORE) : "+a"(call) : "D"(fd), "S"(at), "d"(length), "r"(fourth), "r"(in), "r"(out) : CLOBBERED);
    } else {
        __asm__ volatile("vzeroupper\n" EACH(LOAD_LOWER) "syscall\n" EACH(STORE) : "+a"(call) : "D"(fd), "S"(at), "d"(length), "r"(fourth), "r"(in), "r"(out) : CLOBBERED);
    }
    for (unsigned i = 0; i < sizeof before; i++) {
        if (before[i] != after[i]) {
            printf("byte %u of register %u: ", i % VECTOR, i / VECTOR);
            fail("it", after[i], before[i]);
        }
    }
    return call;
}

static void whole(const char *what, long is, long should) {
    if (is != should) {
        errno = is < 0 ? -is : 0;
        fail(what, is, should);
    }
}

/* Writes to the disk, and waits for it, until the end. */
static void keep_the_disk_busy(void) {
    static char block[65536];
    int fd = open("long-copies-other", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (unsigned round = 0; fd >= 0; round++) {
        memset(block, round, sizeof block);
        if (pwrite(fd, block, sizeof block, 0) != sizeof block || fsync(fd) != 0) {
            break;
        }
    }
    _exit(1);
}

int main(void) {
    if (!__builtin_cpu_supports("avx")) {
        printf("all as written\n");
        return 0;
    }
    int fd = open("long-copies-file", O_RDWR | O_CREAT | O_TRUNC, 0600), ends[2];
    if (fd < 0 || pipe(ends) != 0) {
        fail("open", fd, 0);
    }
    pid_t other = fork();
    if (other == 0) {
        keep_the_disk_busy();
    }
    struct sigaction action = {.sa_handler = alarmed, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 300}, {0, 300}};
    setitimer(ITIMER_REAL, &often, NULL);
    off_t size = 0;
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char *at = bytes + next_random(4096);
        long length = next_random(3) ? 1 + next_random(9000) : 1 + next_random(LONGEST);
        off_t offset = next_random(MOST - length);
        for (long i = 0; i < length; i++) {
            at[i] = model[offset + i] = next_random(256);
        }
        whole("a write", with_vectors(SYS_pwrite64, fd, at, length, offset, round % 2), length);
        size = offset + length > size ? offset + length : size;
        at = bytes + next_random(4096);
        length = 1 + next_random(LONGEST);
        offset = next_random(size);
        long left = length < size - offset ? length : size - offset;
        memset(bytes, 0, sizeof bytes);
        whole("a read", with_vectors(SYS_pread64, fd, at, length, offset, round / 2 % 2), left);
        if (memcmp(at, model + offset, left) != 0) {
            fail("what was read in round", round, -1);
        }
        length = left < 16384 ? left : 16384;
        whole("a write to a pipe", with_vectors(SYS_write, ends[1], model + offset, length, 0, round % 2), length);
        memset(bytes, 0, sizeof bytes);
        whole("a read from a pipe", with_vectors(SYS_read, ends[0], at, length, 0, round / 2 % 2), length);
        if (memcmp(at, model + offset, length) != 0) {
            fail("what came through the pipe in round", round, -1);
        }
    }
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    kill(other, SIGKILL);
    int status;
    if (waitpid(other, &status, 0) != other || !WIFSIGNALED(status)) {
        fail("the other's end", status, SIGKILL);
    }
    unlink("long-copies-file");
    unlink("long-copies-other");
    printf("%s\n", alarms > 10 ? "all as written" : "no alarms");
    return 0;
}
