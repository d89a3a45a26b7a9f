/* mmap of /dev/zero: memory of zeros, as programs from before MAP_ANONYMOUS ask for it; shared with children and with nobody else. What of other devices cannot be mapped. As root and as user 1000. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096L

static const char *why(void *at) {
    return at == MAP_FAILED ? strerror(errno) : "mapped";
}

static void modes(const char *path) {
    static const struct {
        const char *name;
        int flags;
    } opened[] = {{"read", O_RDONLY}, {"written", O_WRONLY}, {"both", O_RDWR}, {"named", O_PATH}};
    static const struct {
        const char *name;
        int protection;
    } rights[] = {{"nothing", PROT_NONE}, {"r", PROT_READ}, {"w", PROT_WRITE}, {"rw", PROT_READ | PROT_WRITE}};
    for (unsigned i = 0; i < sizeof opened / sizeof *opened; i++) {
        int fd = open(path, opened[i].flags);
        if (fd < 0) {
            printf("%s, %s: %s\n", path, opened[i].name, strerror(errno));
            continue;
        }
        for (unsigned j = 0; j < sizeof rights / sizeof *rights; j++) {
            for (int shared = 0; shared < 2; shared++) {
                void *at = mmap(NULL, PAGE, rights[j].protection, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
                printf("%s, %s, %s, %s: %s\n", path, opened[i].name, rights[j].name, shared ? "shared" : "private", why(at));
                if (at != MAP_FAILED) {
                    munmap(at, PAGE);
                }
            }
        }
        close(fd);
    }
}

/* Whether a child's writing is seen, and is not in another mapping of the same descriptor. */
static void shared(int kind, const char *name) {
    int fd = open("/dev/zero", O_RDWR);
    char *a = mmap(NULL, 40 * PAGE, PROT_READ | PROT_WRITE, kind, fd, 0);
    char *b = mmap(NULL, 40 * PAGE, PROT_READ | PROT_WRITE, kind, fd, kind == MAP_PRIVATE ? 4 * PAGE : 0);
    printf("%s: %s, ", name, why(a));
    printf("%s\n", why(b));
    if (a == MAP_FAILED || b == MAP_FAILED) {
        return;
    }
    close(fd);
    long sum = 0;
    for (long i = 0; i < 40 * PAGE; i++) {
        sum += a[i] != 0 || b[i] != 0;
    }
    pid_t child = fork();
    if (child == 0) {
        for (long i = 0; i < 40; i++) {
            a[i * PAGE] = i + 1;
        }
        _exit(0);
    }
    waitpid(child, NULL, 0);
    long seen = 0, other = 0;
    for (long i = 0; i < 40; i++) {
        seen += a[i * PAGE] == i + 1;
        other += b[i * PAGE] != 0;
    }
    printf("not zero at first %ld, of the child's %ld, in the other %ld\n", sum, seen, other);
    char *c = mremap(a, 40 * PAGE, 20 * PAGE, 0);
    printf("shorter: %s\n", why(c));
    printf("advice: %d\n", madvise(a, 20 * PAGE, MADV_DONTNEED));
    printf("after that %d\n", a[5 * PAGE]);
    printf("protected: %d\n", mprotect(a, PAGE, PROT_NONE));
    munmap(a, 20 * PAGE);
    munmap(b, 40 * PAGE);
}

/* What such memory is asked for most: a lock of processes. */
static void locked(void) {
    enum { CHILDREN = 4, TIMES = 2000 };
    struct {
        pthread_mutex_t lock;
        long count;
    } *it;
    int fd = open("/dev/zero", O_RDWR);
    it = mmap(NULL, sizeof *it, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (it == MAP_FAILED) {
        printf("lock: %s\n", strerror(errno));
        return;
    }
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&it->lock, &how);
    for (int i = 0; i < CHILDREN; i++) {
        if (fork() == 0) {
            for (int n = 0; n < TIMES; n++) {
                pthread_mutex_lock(&it->lock);
                it->count++;
                pthread_mutex_unlock(&it->lock);
            }
            _exit(0);
        }
    }
    while (wait(NULL) > 0) {
    }
    printf("counted %ld\n", it->count);
}

static void places(void) {
    int fd = open("/dev/zero", O_RDWR);
    char *base = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(base, 7, 4 * PAGE);
    char *at = mmap(base + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0);
    printf("in its place %d, %d %d %d\n", at == base + PAGE, base[0], base[PAGE], base[2 * PAGE]);
    printf("not there: %s\n", why(mmap(base, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0)));
    printf("far: %s\n", why(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 1L << 40)));
    printf("not a page: %s\n", why(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 100)));
    printf("beyond: %s\n", why(mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fd, -PAGE)));
    printf("of no length: %s\n", why(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0)));
    printf("validated: %s\n", why(mmap(NULL, PAGE, PROT_READ, MAP_SHARED_VALIDATE, fd, 0)));
    printf("synced: %s\n", why(mmap(NULL, PAGE, PROT_READ, MAP_SHARED_VALIDATE | 0x80000, fd, 0)));
    /* Much of it, and two thousand times. */
    at = mmap(NULL, 1L << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    printf("much: %s\n", why(at));
    if (at != MAP_FAILED) {
        at[(1L << 30) - 1] = 1;
        printf("%d\n", at[(1L << 30) - 1]);
        munmap(at, 1L << 30);
    }
    long count = 0;
    for (int i = 0; i < 2000; i++) {
        /* (By turns, that neighbours are not one mapping.) */
        count += mmap(NULL, PAGE, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, i % 3 ? MAP_SHARED : MAP_PRIVATE, fd, 0) != MAP_FAILED;
    }
    printf("often: %ld\n", count);
    close(fd);
}

static void all(void) {
    modes("/dev/zero");
    modes("/dev/full");
    modes("/dev/null");
    shared(MAP_SHARED, "shared");
    shared(MAP_PRIVATE, "private");
    locked();
    places();
}

int main(void) {
    setbuf(stdout, NULL);
    all();
    pid_t child = fork();
    if (child == 0) {
        if (setgid(1000) != 0 || setuid(1000) != 0) {
            puts("no user");
            return 1;
        }
        all();
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("ended %#x\n", status);
    return 0;
}
