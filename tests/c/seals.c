/* Seals of memfd_create(2): each keeps what it says, by whatever way one tries, also through other descriptors of the file and from other processes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef FALLOC_FL_KEEP_SIZE
#define FALLOC_FL_KEEP_SIZE 1
#define FALLOC_FL_PUNCH_HOLE 2
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 16
#endif

enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE };
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

static int sealable(int pages) {
    int file = memfd_create("sealed", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, pages * PAGE)) exit(1);
    return file;
}

static int again(int file, int flags) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    return open(name, flags);
}

static void who_may(void) {
    struct stat st;
    umask(027);
    int plain = memfd_create("plain", 0), file = sealable(1);
    expect(memfd_create(NULL, 1u << 31), EINVAL);
    expect(memfd_create(NULL, 0), EFAULT);
    is(close(syscall(SYS_memfd_create, "upper half", 1L << 32)), 0);
    umask(022);
    is(fstat(file, &st), 0);
    is(st.st_mode, S_IFREG | 0777);
    is(fcntl(plain, F_GET_SEALS), F_SEAL_SEAL);
    expect(fcntl(plain, F_ADD_SEALS, F_SEAL_WRITE), EPERM);
    int pipes[2], null = open("/dev/null", O_RDWR), reader = open("/proc/self/exe", O_RDONLY);
    if (pipe(pipes)) exit(1);
    int others[] = {pipes[1], null};
    for (int i = 0; i < 2; i++) {
        expect(fcntl(others[i], F_GET_SEALS), EINVAL);
        expect(fcntl(others[i], F_ADD_SEALS, F_SEAL_WRITE), EINVAL);
    }
    expect(fcntl(pipes[0], F_ADD_SEALS, F_SEAL_WRITE), EPERM);
    expect(fcntl(reader, F_ADD_SEALS, F_SEAL_WRITE), EPERM);
    is(fcntl(file, F_GET_SEALS), 0);
    expect(fcntl(file, F_ADD_SEALS, 1 << 10), EINVAL);
    is(fcntl(file, F_ADD_SEALS, 0), 0);
    reader = again(file, O_RDONLY);
    expect(fcntl(reader, F_ADD_SEALS, F_SEAL_GROW), EPERM);
    is(fcntl(file, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL), 0);
    is(fcntl(reader, F_GET_SEALS), F_SEAL_GROW | F_SEAL_SEAL);
    expect(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK), EPERM);
    /* No ioctl has these numbers. */
    expect(ioctl(file, F_GET_SEALS, 0), ENOTTY);
}

static void sizes(void) {
    char buffer[2 * PAGE];
    int file = sealable(2);
    memset(buffer, 'x', sizeof buffer);
    is(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    expect(ftruncate(file, PAGE), EPERM);
    expect(again(file, O_RDWR | O_TRUNC), EPERM);
    is(ftruncate(file, 2 * PAGE), 0);
    is(ftruncate(file, 2 * PAGE + 100), 0);
    is(fcntl(file, F_ADD_SEALS, F_SEAL_GROW), 0);
    expect(ftruncate(file, 3 * PAGE), EPERM);
    expect(fallocate(file, 0, 0, 4 * PAGE), EPERM);
    expect(fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 4 * PAGE), EPERM);
    is(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE), 0);
    is(pwrite(file, buffer, 100, 2 * PAGE), 100);
    expect(pwrite(file, buffer, 101, 2 * PAGE), EPERM);
    is(pwrite(file, buffer, sizeof buffer, PAGE), PAGE);
    is(lseek(file, 0, SEEK_END), 2 * PAGE + 100);
    expect(write(file, buffer, 1), EPERM);
    close(file);
}

static void writing(void) {
    int file = sealable(2), other = dup(file), writer = again(file, O_RDWR), status;
    int source = memfd_create("source", 0);
    if (write(source, "source", 6) != 6) exit(1);
    char *map = mmap(NULL, 2 * PAGE, RW, MAP_SHARED, file, 0), byte = 'y';
    strcpy(map, "before");
    expect(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), EBUSY);
    is(fcntl(file, F_GET_SEALS), 0);
    munmap(map, 2 * PAGE);
    /* A child's mapping counts as well. */
    int told[2], go[2];
    if (pipe(told) || pipe(go)) exit(1);
    pid_t child = fork();
    if (!child) {
        char *mine = mmap(NULL, PAGE, RW, MAP_SHARED, file, 0);
        mine[0] = 'B';
        if (write(told[1], "x", 1) != 1 || read(go[0], &byte, 1) != 1) _exit(1);
        munmap(mine, PAGE);
        _exit(mmap(NULL, PAGE, RW, MAP_SHARED, file, 0) != MAP_FAILED);
    }
    is(read(told[0], &byte, 1), 1);
    expect(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), EBUSY);
    kill(child, 9);
    is(waitpid(child, &status, 0), child);
    char *copy = mmap(NULL, PAGE, RW, MAP_PRIVATE, file, 0);
    copy[1] = 'C';
    is(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), 0);
    is(fcntl(writer, F_GET_SEALS), F_SEAL_WRITE);
    is(memcmp(copy, "BCfore", 7), 0);
    int all[] = {file, other, writer};
    for (int i = 0; i < 3; i++) {
        off_t at = 0;
        expect(pwrite(all[i], "z", 1, 0), EPERM);
        expect(sendfile(all[i], source, &at, 6), EPERM);
        expect(mmap(NULL, PAGE, RW, MAP_SHARED, all[i], 0), EPERM);
        expect(fallocate(all[i], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE), EPERM);
    }
    int reader = again(file, O_RDONLY);
    map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, reader, 0);
    is(memcmp(map, "Before", 7), 0);
    expect(mprotect(map, PAGE, RW), EACCES);
    char *private = mmap(NULL, PAGE, RW, MAP_PRIVATE, file, 0);
    private[0] = 'P';
    is(map[0], 'B');
    if (!(child = fork())) _exit(pwrite(file, "z", 1, 0) != -1 || errno != EPERM);
    is(waitpid(child, &status, 0), child);
    is(status, 0);
    /* The other seals are not there. */
    is(ftruncate(file, 3 * PAGE), 0);
    is(ftruncate(file, 0), 0);
}

static void later(void) {
    int file = sealable(1);
    char *map = mmap(NULL, PAGE, RW, MAP_SHARED, file, 0), byte;
    is(fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
    map[0] = 'm';
    is(pread(file, &byte, 1, 0), 1);
    is(byte, 'm');
    expect(pwrite(file, "z", 1, 0), EPERM);
    expect(mmap(NULL, PAGE, RW, MAP_SHARED, file, 0), EPERM);
    char *reader = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    is(reader[0], 'm');
    expect(mprotect(reader, PAGE, RW), EACCES);
}

/* What is mapped to be read can be written later if the descriptor can be, and counts as if it were. */
static void protected(int (*make)(int)) {
    int file = make(3), reader = again(file, O_RDONLY);
    is(ftruncate(file, 3 * PAGE), 0);
    int kinds[] = {PROT_READ, PROT_NONE};
    for (int i = 0; i < 2; i++) {
        char *map = mmap(NULL, 3 * PAGE, kinds[i], MAP_SHARED, file, 0), byte;
        is(mprotect(map + PAGE, PAGE, RW), 0);
        map[PAGE] = 'a' + i;
        is(pread(file, &byte, 1, PAGE), 1);
        is(byte, 'a' + i);
        is(munmap(map, 3 * PAGE), 0);
        map = mmap(NULL, 3 * PAGE, kinds[i], MAP_SHARED, reader, 0);
        expect(mprotect(map + PAGE, PAGE, RW), EACCES);
        is(munmap(map, 3 * PAGE), 0);
    }
    char *map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    if (make == sealable) expect(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), EBUSY);
    munmap(map, PAGE);
    if (make == sealable) is(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), 0);
    close(reader);
    close(file);
}

static int plain(int pages) {
    int file = open("/tmp/seals-plain", O_RDWR | O_CREAT | O_TRUNC, 0644);
    unlink("/tmp/seals-plain");
    if (ftruncate(file, pages * PAGE)) exit(1);
    return file;
}

int main(void) {
    who_may();
    sizes();
    writing();
    later();
    protected(sealable);
    protected(plain);
    puts(failed ? "failed" : "all as it should be");
    return failed;
}
