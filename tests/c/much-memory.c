/* Requests on much memory, which are done in pieces, beside others of the same program: threads that unmap, protect, move, drop and populate 12 MiB each, and
 * forks meanwhile whose children look at everything that stays as it is. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUCH (12L << 20)
#define STAYS (6L << 20)
#define ROUNDS 12

static char *stays;
static int done;

static char *make(void)
{
    char *p = mmap(0, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    for (long i = 0; i < MUCH; i += 4096) p[i] = (char)(i >> 12);
    return p;
}

static void expect(const char *what, const char *p, long from, long to, int zero)
{
    for (long i = from; i < to; i += 4096) {
        char wanted = zero ? 0 : (char)(i >> 12);
        if (p[i] != wanted) {
            printf("%s: page %ld is %d\n", what, i >> 12, p[i]);
            exit(1);
        }
    }
}

static void *changes(void *which)
{
    for (int round = 0; round < ROUNDS; round++) {
        char *p = make();
        int bad = 0;
        switch ((long)which) {
        case 0:
            bad |= mprotect(p, MUCH, PROT_READ);
            expect("protected", p, 0, MUCH, 0);
            bad |= mprotect(p + 8192, MUCH - 8192, PROT_READ | PROT_WRITE);
            p[MUCH - 1] = 1;
            break;
        case 1: {
            char *q = mmap(0, MUCH + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            /* Now as it lies, now a page beside. */
            q = mremap(p, MUCH, MUCH, MREMAP_MAYMOVE | MREMAP_FIXED, q + 4096 * (round & 1));
            bad |= q == MAP_FAILED;
            expect("moved", q, 0, MUCH, 0);
            p = mremap(q, MUCH, MUCH + 4096, MREMAP_MAYMOVE);
            bad |= p == MAP_FAILED;
            expect("grown", p, 0, MUCH, 0);
            bad |= p[MUCH] != 0;
            bad |= munmap(p + MUCH, 4096);
            break;
        }
        case 2:
            bad |= madvise(p, MUCH, MADV_DONTNEED);
            expect("dropped", p, 0, MUCH, 1);
            break;
        default:
            bad |= mmap(p, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != p;
            expect("replaced", p, 0, MUCH, 1);
        }
        bad |= munmap(p, MUCH);
        if (bad) printf("case %ld, round %d: %s\n", (long)which, round, strerror(errno));
    }
    __atomic_add_fetch(&done, 1, __ATOMIC_SEQ_CST);
    return 0;
}

int main(void)
{
    stays = make();
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, changes, (void *)i);
    int forks = 0;
    while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < 4 || forks < 20) {
        pid_t child = fork();
        if (child == 0) {
            for (long i = 0; i < STAYS; i += 4096)
                if (stays[i] != (char)(i >> 12)) _exit(2);
            stays[0] = 77;
            _exit(stays[0] == 77 ? 0 : 3);
        }
        int status = -1;
        if (child < 0) printf("fork: %s\n", strerror(errno));
        else if (waitpid(child, &status, 0) != child || status) printf("the child's status: %x\n", status);
        forks++;
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    expect("stays", stays, 0, MUCH, 0);
    puts("all is right");
    return 0;
}
