/* Scattered reading and writing: pieces of every size around what travels in a message's words, in one buffer, and as a vector; empty and bad pieces; files and pipes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* RWF_APPEND, which not every C library knows. */
enum { APPEND = 16 };

static char from[1 << 16], to[1 << 16];

static void say(const char *what, long result) {
    if (result < 0) {
        printf("%s: %s\n", what, strerror(errno));
    } else {
        printf("%s: %ld\n", what, result);
    }
}

/* `count` pieces of together `total` bytes of `base`, with gaps between them. */
static int cut(struct iovec *v, char *base, int count, int total) {
    int at = 0;
    for (int i = 0; i < count; i++) {
        int length = total / count + (i < total % count);
        v[i] = (struct iovec){base + at, length};
        at += length + 3;
    }
    return at;
}

static int same(struct iovec *a, struct iovec *b, int count) {
    for (int i = 0; i < count; i++) {
        if (a[i].iov_len != b[i].iov_len || memcmp(a[i].iov_base, b[i].iov_base, a[i].iov_len) != 0) {
            return 0;
        }
    }
    return 1;
}

int main(void) {
    setbuf(stdout, NULL);
    for (unsigned i = 0; i < sizeof from; i++) {
        from[i] = i * 7 + i / 251;
    }
    /* A file of its own: the program may run several times at once. */
    char name[] = "/tmp/vectors-XXXXXX";
    int fd = mkstemp(name), p[2];
    if (fd < 0 || pipe(p) < 0) {
        puts("set-up failed");
        return 1;
    }
    static const int totals[] = {0, 1, 2, 8, 39, 40, 41, 100, 1000, 4095, 4096, 4097, 9000, 30000};
    struct iovec a[100], b[100];
    for (unsigned t = 0; t < sizeof totals / sizeof *totals; t++) {
        for (int count = 1; count <= 60; count = count * 2 + 1) {
            int total = totals[t];
            cut(a, from, count, total);
            cut(b, to, count, total);
            memset(to, 0x55, sizeof to);
            long wrote = pwritev(fd, a, count, 10), read = preadv(fd, b, count, 10);
            int ok = wrote == total && read == total && same(a, b, count);
            memset(to, 0x55, sizeof to);
            wrote = writev(p[1], a, count);
            read = total ? readv(p[0], b, count) : 0;
            ok = ok && wrote == total && read == total && same(a, b, count);
            if (!ok) {
                printf("%d bytes in %d pieces: WRONG\n", total, count);
            }
        }
    }
    puts("all sizes");

    /* The position, the end of the file, pieces that are empty. */
    struct iovec v[4] = {{from, 0}, {from, 10}, {NULL, 0}, {from + 10, 20}};
    ftruncate(fd, 0);
    lseek(fd, 0, SEEK_SET);
    say("empty pieces", writev(fd, v, 4));
    say("position", lseek(fd, 0, SEEK_CUR));
    lseek(fd, 20, SEEK_SET);
    memset(to, 0x55, sizeof to);
    struct iovec w[3] = {{to, 6}, {to + 6, 0}, {to + 6, 100}};
    say("at the end", readv(fd, w, 3));
    printf("content %d\n", memcmp(to, from + 20, 10) == 0 && to[10] == 0x55);
    say("behind the end", readv(fd, w, 3));
    say("none", readv(fd, w, 0));
    say("only empty ones", writev(fd, v, 1));

    /* Bad ones: the first, a later one. */
    struct iovec bad[2] = {{from, 100}, {(void *)8, 100}}, first[2] = {{(void *)8, 100}, {to, 100}};
    say("later piece, write", pwritev(fd, bad, 2, 0));
    say("first piece, write", pwritev(fd, first, 2, 0));
    say("first piece, read", preadv(fd, first, 2, 0));
    bad[0].iov_base = to;
    say("later piece, read", preadv(fd, bad, 2, 0));
    char *const nowhere = (void *)8;
    static const int sizes[] = {5, 30, 100, 5000};
    ftruncate(fd, 9000);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        lseek(fd, 1000, SEEK_SET);
        say("read to nowhere", read(fd, nowhere, sizes[i]));
        say("position", lseek(fd, 0, SEEK_CUR));
    }
    say("later piece", readv(fd, bad, 2));
    say("position", lseek(fd, 0, SEEK_CUR));
    say("first piece", readv(fd, first, 2));
    say("position", lseek(fd, 0, SEEK_CUR));
    say("the vector itself", preadv(fd, (void *)8, 2, 0));
    say("too many", preadv(fd, b, 1025, 0));
    v[1].iov_len = (size_t)-1;
    say("too long", pwritev(fd, v, 4, 0));
    say("negative offset", preadv(fd, w, 3, -5));
    say("pipe at an offset", preadv(p[0], w, 3, 0));
    int only = open(name, O_WRONLY);
    say("not for reading", readv(only, w, 3));
    say("append", syscall(SYS_pwritev2, fd, w, 1, 0, 0, APPEND));
    say("size", lseek(fd, 0, SEEK_END));

    /* Offsets at the end of all; a descriptor for neither reading nor writing. */
    off_t last = 0x7fffffffffffffff;
    say("read at the last offset", pread(fd, to, 100, last));
    say("write at the last offset", pwrite(fd, to, 1, last));
    say("to the last offset", pread(fd, to, 100, last - 100));
    int neither = open(name, O_ACCMODE);
    say("neither, read", read(neither, to, 8));
    say("neither, long read", read(neither, to, 100));
    say("neither, write", write(neither, to, 8));

    /* A pipe that nobody reads, a limit. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    close(p[0]);
    v[1].iov_len = 10;
    say("broken pipe", writev(p[1], v, 4));
    /* The output may be a file, which the limit must not meet. */
    struct rlimit limit = {50, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    long behind = pwritev(fd, v, 4, 60);
    int error = errno;
    setrlimit(RLIMIT_FSIZE, &none);
    errno = error;
    say("behind the limit", behind);
    close(fd);
    say("closed", writev(fd, v, 4));
    unlink(name);
    return 0;
}
