/* Memory that is locked, RLIMIT_MEMLOCK, RLIMIT_DATA, and how many processes a user may have: the same as on Linux, with and without the privilege. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };
static int failed;

static void expect_at(int line, const char *what, long got, int errno_wanted, long wanted) {
    int error = got == -1 ? errno : 0;
    if (got != wanted || error != errno_wanted) {
        printf("%d: %s: %ld (%s), not %ld (%s)\n", line, what, got, strerror(error), wanted, strerror(errno_wanted));
        failed = 1;
    }
}
#define expect(what, error) expect_at(__LINE__, #what, (long)(what), error, (error) ? -1 : 0)
#define is(what, value) expect_at(__LINE__, #what, (long)(what), 0, value)

static void limit(int resource, long soft) {
    struct rlimit l;
    getrlimit(resource, &l);
    l.rlim_cur = soft;
    setrlimit(resource, &l);
}
/* A line of /proc/self/status, in pages. */
static long pages(const char *name) {
    static char text[4096];
    int fd = open("/proc/self/status", O_RDONLY);
    long n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    char *at = strstr(text, name);
    return at ? strtol(at + strlen(name) + 1, NULL, 10) / 4 : -1;
}
static int resident(char *p, int n) {
    unsigned char there[1024];
    int count = 0;
    mincore(p, n * PAGE, there);
    for (int i = 0; i < n; i++) count += there[i] & 1;
    return count;
}
static char *map(int n, int prot, int more) {
    return mmap(NULL, n * PAGE, prot, ANON | more, -1, 0);
}

/* What everybody may, with a limit of 16 pages or without one. */
static void locks(int privileged) {
    limit(RLIMIT_MEMLOCK, 16 * PAGE);
    char *p = map(64, RW, 0);
    is(pages("VmLck:"), 0);
    is(resident(p, 64), 0);
    expect(mlock(p + 100, 1), 0);
    is(pages("VmLck:"), 1);
    is(resident(p, 64), 1);
    /* From the middle of a page to the next one's: two; the first one is locked already. */
    expect(mlock(p + PAGE - 1, 2), 0);
    is(pages("VmLck:"), 2);
    expect(mlock(p, 16 * PAGE), 0);
    is(resident(p, 64), 16);
    expect(mlock(p, 17 * PAGE), privileged ? 0 : ENOMEM);
    expect(munlock(p + 16 * PAGE, PAGE), 0);
    is(pages("VmLck:"), 16);
    /* They are not given back, but can be unmapped. */
    expect(madvise(p, 4 * PAGE, MADV_DONTNEED), EINVAL);
    expect(munmap(p + 15 * PAGE, PAGE), 0);
    is(pages("VmLck:"), 15);
    /* A hole: what is before it is locked. */
    expect(munlock(p, 15 * PAGE), 0);
    is(pages("VmLck:"), 0);
    expect(mlock(p + 12 * PAGE, 8 * PAGE), ENOMEM);
    is(pages("VmLck:"), 3);
    expect(munlock(p + 10 * PAGE, 8 * PAGE), ENOMEM);
    is(pages("VmLck:"), 0);
    expect(mlock((void *)-PAGE, 2 * PAGE), EINVAL);
    expect(mlock(p, 0), 0);
    expect(syscall(SYS_mlock2, p, PAGE, 2), EINVAL);
    expect(syscall(SYS_mlock2, p + 32 * PAGE, 8 * PAGE, 1), 0);
    is(pages("VmLck:"), 8);
    is(resident(p + 32 * PAGE, 8), 0);
    p[33 * PAGE] = 1;
    is(resident(p + 32 * PAGE, 8) >= 1, 1);
    /* A child has no locks. */
    pid_t child = fork();
    if (child == 0) _exit(pages("VmLck:") != 0);
    int status;
    waitpid(child, &status, 0);
    is(status, 0);
    expect(munlock(p + 32 * PAGE, 8 * PAGE), 0);
    /* MAP_LOCKED, and mappings that grow. */
    char *q = map(4, RW, MAP_LOCKED);
    is(resident(q, 4), 4);
    is(pages("VmLck:"), 4);
    expect(mremap(q, 4 * PAGE, 40 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED ? -1 : 0, privileged ? 0 : EAGAIN);
    expect(map(20, RW, MAP_LOCKED) == MAP_FAILED ? -1 : 0, privileged ? 0 : EAGAIN);
    expect(munlockall(), 0);
    is(pages("VmLck:"), 0);
    /* Nothing that may be done: locked, but not there. */
    char *none = map(2, PROT_NONE, 0);
    expect(mlock(none, 2 * PAGE), ENOMEM);
    is(pages("VmLck:"), 2);
    munmap(none, 2 * PAGE);
    /* A file's pages. */
    int file = memfd_create("file", 0);
    ftruncate(file, 4 * PAGE);
    char *f = mmap(NULL, 4 * PAGE, RW, MAP_SHARED, file, 0);
    expect(mlock(f, 4 * PAGE), 0);
    is(resident(f, 4), 4);
    expect(munmap(f, 4 * PAGE), 0);
    is(pages("VmLck:"), 0);
    /* All of it. */
    expect(mlockall(0), EINVAL);
    expect(mlockall(8), EINVAL);
    expect(mlockall(4), EINVAL);
    expect(mlockall(MCL_CURRENT), privileged ? 0 : ENOMEM);
    expect(mlockall(MCL_FUTURE), 0);
    q = map(4, RW, 0);
    is(resident(q, 4), 4);
    expect(map(20, RW, 0) == MAP_FAILED ? -1 : 0, privileged ? 0 : EAGAIN);
    char *end = sbrk(0);
    is(sbrk(3 * PAGE) == end, 1);
    is(resident((char *)(((long)end + PAGE - 1) & -PAGE), 2), 2);
    is(sbrk(-3 * PAGE) != (void *)-1, 1);
    expect(sbrk(64 * PAGE) == (void *)-1 ? -1 : 0, privileged ? 0 : ENOMEM);
    expect(munlockall(), 0);
    is(pages("VmLck:"), 0);
    expect(map(20, RW, 0) == MAP_FAILED ? -1 : 0, 0);
    /* No lock at all. */
    limit(RLIMIT_MEMLOCK, 0);
    expect(mlock(p, PAGE), privileged ? 0 : EPERM);
    expect(mlockall(MCL_FUTURE), privileged ? 0 : EPERM);
    expect(map(1, RW, MAP_LOCKED) == MAP_FAILED ? -1 : 0, privileged ? 0 : EPERM);
    expect(munlockall(), 0);
    limit(RLIMIT_MEMLOCK, 100);
    expect(mlock(p, PAGE), privileged ? 0 : ENOMEM);
}

static void data(void) {
    /* From here on the break is counted exactly. */
    limit(RLIMIT_DATA, 1L << 40);
    long before = pages("VmData:");
    char *end = sbrk(0);
    is(sbrk(5 * PAGE) == end, 1);
    is(pages("VmData:") - before, 5);
    char *p = map(10, RW, 0), *r = map(10, PROT_READ, 0);
    is(pages("VmData:") - before, 15);
    munmap(p + 5 * PAGE, 5 * PAGE);
    mprotect(p, PAGE, PROT_READ);
    is(pages("VmData:") - before, 9);
    limit(RLIMIT_DATA, (pages("VmData:") + 20) * PAGE);
    expect(map(21, RW, 0) == MAP_FAILED ? -1 : 0, ENOMEM);
    expect(map(21, PROT_READ, 0) == MAP_FAILED ? -1 : 0, 0);
    expect(mmap(NULL, 21 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0, 0);
    char *q = map(15, RW, 0);
    expect(q == MAP_FAILED ? -1 : 0, 0);
    expect(mprotect(r, 6 * PAGE, RW), ENOMEM);
    expect(mprotect(r, 5 * PAGE, RW), 0);
    expect(mremap(q, 15 * PAGE, 16 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED ? -1 : 0, ENOMEM);
    expect(sbrk(PAGE) == (void *)-1 ? -1 : 0, ENOMEM);
    munmap(q, 15 * PAGE);
    is(sbrk(PAGE) != (void *)-1, 1);
    is(sbrk(-6 * PAGE) != (void *)-1, 1);
    is(sbrk(0) == end, 1);
    /* Children and what they execute have it as well. */
    pid_t child = fork();
    if (child == 0) _exit(map(64, RW, 0) != MAP_FAILED);
    int status;
    waitpid(child, &status, 0);
    is(status, 0);
}

static void run(void (*what)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        what();
        fflush(stdout);
        _exit(failed);
    }
    int status;
    waitpid(child, &status, 0);
    failed |= status != 0;
}
static void as_root(void) { locks(1); }
static void as_user(void) {
    if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000)) exit(1);
    locks(0);
}

int main(void) {
    struct rlimit tasks, signals;
    struct sysinfo memory;
    getrlimit(RLIMIT_NPROC, &tasks);
    getrlimit(RLIMIT_SIGPENDING, &signals);
    sysinfo(&memory);
    long mib = memory.totalram * memory.mem_unit >> 20;
    /* Some four for each MiB; on Linux, of what the archive that it booted with has left. */
    is(tasks.rlim_cur > mib && tasks.rlim_cur < mib * 5, 1);
    is(signals.rlim_cur == tasks.rlim_cur, 1);
    run(as_root);
    run(as_user);
    run(data);
    puts(failed ? "failed" : "all as it should be");
    return failed;
}
