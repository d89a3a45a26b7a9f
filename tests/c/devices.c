/* /dev/null, /dev/zero and /dev/full through every way of reading and writing: rights of the descriptor, counts, positions, bad memory, inheritance. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *what, long result) {
    if (result < 0) {
        printf("%s: %s\n", what, strerror(errno));
    } else {
        printf("%s: %ld\n", what, result);
    }
}

static int zeros(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (p[i]) {
            return 0;
        }
    }
    return 1;
}

static void device(const char *path) {
    char b[100], c[100];
    char *text = "text", *volatile bad = (char *)8;
    struct iovec two[2] = {{b, 30}, {c, 70}};
    printf("%s\n", path);
    for (int mode = O_RDONLY; mode <= O_RDWR; mode++) {
        int fd = open(path, mode);
        printf("mode %d\n", mode);
        memset(b, 1, sizeof b);
        memset(c, 1, sizeof c);
        say("read", read(fd, b, 33));
        printf("zero %d %d\n", zeros(b, 33), b[33]);
        say("read nothing", read(fd, b, 0));
        say("pread", pread(fd, b, sizeof b, 1000));
        say("pread before", pread(fd, b, sizeof b, -1));
        say("readv", readv(fd, two, 2));
        printf("zero %d\n", zeros(c, 70));
        say("position", lseek(fd, 0, SEEK_CUR));
        say("moved", lseek(fd, 7, SEEK_SET));
        say("back", lseek(fd, -3, SEEK_CUR));
        say("behind the end", lseek(fd, 9, SEEK_END));
        say("data", lseek(fd, 1, SEEK_DATA));
        say("no such way", lseek(fd, 0, 9));
        say("write", write(fd, text, 4));
        say("pwrite", pwrite(fd, text, 4, 5));
        say("writev", writev(fd, two, 2));
        say("read bad", read(fd, bad, 10));
        if (mode == O_RDWR) {
            say("read high", read(fd, (void *)0xffff800000000000, 10));
            say("write high", write(fd, (void *)0xffff800000000000, 10));
        }
        struct pollfd f = {fd, POLLIN | POLLOUT, 0};
        say("poll", poll(&f, 1, 0));
        printf("ready %x\n", f.revents);
        close(fd);
        say("closed", read(fd, b, 1));
    }
    int fd = open(path, O_PATH);
    say("O_PATH read", read(fd, b, 1));
    say("O_PATH write", write(fd, b, 1));
    close(fd);
}

static volatile int alarms;
static void on_alarm(int s) { alarms += s == SIGALRM; }

int main(void) {
    setbuf(stdout, NULL);
    device("/dev/null");
    device("/dev/zero");
    device("/dev/full");

    /* A large read, into memory that is not there yet. */
    enum { LARGE = 5 << 20 };
    char *p = mmap(NULL, LARGE + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(p + LARGE - 100, 7, 200);
    int fd = open("/dev/zero", O_RDWR);
    say("large", read(fd, p + 1, LARGE - 1));
    printf("zero %d, behind %d\n", zeros(p + 1, LARGE - 1), p[LARGE]);
    mprotect(p, LARGE, PROT_READ);
    say("into read-only memory", read(fd, p, 100));
    mprotect(p + 4096, 2 * 4096, PROT_READ | PROT_WRITE);
    say("as far as it can be written", read(fd, p + 4096 + 96, 100000));
    say("more than there are addresses", read(fd, p + 4096, (size_t)-1));
    say("the same, write", write(fd, p + 4096, (size_t)-1));

    /* Descriptors that were made from it, in a child, behind a link and a node of another file system. */
    int copy = dup(fd);
    close(fd);
    say("dup", read(copy, p + LARGE, 10));
    if (fork() == 0) {
        say("child", read(copy, p + LARGE, 10));
        _exit(0);
    }
    wait(NULL);
    symlink("/dev/zero", "/tmp/zero-link");
    fd = open("/tmp/zero-link", O_RDONLY);
    say("link", read(fd, p + LARGE, 10));
    say("link write", write(fd, p, 10));
    close(fd);
    unlink("/tmp/zero-link");
    fd = open("/dev/null", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    say("created", write(fd, p, 10));
    say("truncate", ftruncate(fd, 0) == 0 ? 0 : errno == EINVAL ? 1 : 2);
    close(fd);

    /* A signal ends a read that would take for ever, with what was done; the next one goes on. */
    char *huge = mmap(NULL, 1UL << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (huge != MAP_FAILED) {
        struct sigaction action = {.sa_handler = on_alarm};
        sigaction(SIGALRM, &action, NULL);
        fd = open("/dev/zero", O_RDONLY);
        ualarm(2000, 0);
        ssize_t got = read(fd, huge, 64 << 20);
        printf("interrupted: %d\n", got > 0 && got <= 64 << 20);
        while (!alarms) {
            usleep(1000);
        }
        say("afterwards", read(fd, huge, 4096));
    }
    return 0;
}
