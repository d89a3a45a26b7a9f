/* Vectors of more pieces than are usual, up to IOV_MAX: read and written whole, by every call that takes a vector, on every kind of file; and what is wrong far behind. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1024, LONGEST = 61 };

static char from[MOST * (LONGEST + 3)], to[sizeof from];
static struct iovec out[MOST + 1], in[MOST + 1];

static void say(const char *what, int count, long result) {
    if (result < 0) {
        printf("%s, %d pieces: %s\n", what, count, strerror(errno));
    } else {
        printf("%s, %d pieces: %ld\n", what, count, result);
    }
}

/* `count` pieces with gaps between them; the lengths are not the same on both sides, the sum is. */
static long cut(int count, int each) {
    memset(to, 0, sizeof to);
    for (int i = 0; i < count; i++) {
        int more = i % 2 ? 1 : -1;
        if (i == count - 1 && count % 2) {
            more = 0;
        }
        out[i] = (struct iovec){from + i * (each + 2), each + more};
        in[i] = (struct iovec){to + i * (each + 2), each - more};
    }
    return (long)count * each;
}

/* Whether the first `total` bytes of both sides are the same. */
static const char *compare(int count, long total) {
    int a = 0, b = 0;
    size_t at = 0, bt = 0;
    for (long i = 0; i < total; i++, at++, bt++) {
        while (a < count && at == out[a].iov_len) {
            a++, at = 0;
        }
        while (b < count && bt == in[b].iov_len) {
            b++, bt = 0;
        }
        if (((char *)out[a].iov_base)[at] != ((char *)in[b].iov_base)[bt]) {
            return "differ";
        }
    }
    return "same";
}

static void files(int count, int each) {
    char name[] = "/tmp/many-pieces-XXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    long total = cut(count, each);
    say("writev, file", count, writev(fd, out, count));
    lseek(fd, 0, SEEK_SET);
    long got = readv(fd, in, count);
    say("readv, file", count, got);
    printf("%s, at %ld\n", compare(count, total), (long)lseek(fd, 0, SEEK_CUR));
    cut(count, each);
    say("pwritev", count, pwritev(fd, out, count, 5));
    say("preadv", count, preadv(fd, in, count, 5));
    puts(compare(count, total));
    cut(count, each);
    say("pwritev2", count, syscall(SYS_pwritev2, fd, out, count, total, 0L, 0));
    say("preadv2", count, syscall(SYS_preadv2, fd, in, count, total, 0L, 0));
    puts(compare(count, total));
    fcntl(fd, F_SETFL, O_APPEND);
    say("writev, appended", count, writev(fd, out, count));
    printf("length %ld\n", (long)lseek(fd, 0, SEEK_END));
    close(fd);
}

/* What goes in at one end comes out at the other. */
static void ends(const char *what, int a, int b, int count, int each) {
    char name[80];
    long total = cut(count, each);
    snprintf(name, sizeof name, "writev, %s", what);
    say(name, count, writev(a, out, count));
    snprintf(name, sizeof name, "readv, %s", what);
    say(name, count, readv(b, in, count));
    puts(compare(count, total));
    close(a);
    close(b);
}

static void messages(const char *what, int a, int b, int count, int each, struct sockaddr *address, socklen_t length) {
    char name[80], sender[128];
    long total = cut(count, each);
    struct msghdr message = {.msg_iov = out, .msg_iovlen = count, .msg_name = address, .msg_namelen = length};
    snprintf(name, sizeof name, "sendmsg, %s", what);
    say(name, count, sendmsg(a, &message, 0));
    /* (Cairn counts the room for a local socket's name as a piece.) */
    int names = count < MOST ? 2 : 1;
    for (int named = 0; named < names; named++) {
        cut(count, each);
        struct msghdr come = {.msg_iov = in, .msg_iovlen = count};
        if (named) {
            come.msg_name = sender;
            come.msg_namelen = sizeof sender;
        }
        snprintf(name, sizeof name, "recvmsg%s, %s", named ? " with a name" : "", what);
        say(name, count, recvmsg(b, &come, named == names - 1 ? 0 : MSG_PEEK));
        printf("%s, flags %#x\n", compare(count, total), come.msg_flags);
    }
    struct mmsghdr many[2] = {
        {.msg_hdr = {.msg_iov = out, .msg_iovlen = count, .msg_name = address, .msg_namelen = length}},
        {.msg_hdr = {.msg_iov = out, .msg_iovlen = 1, .msg_name = address, .msg_namelen = length}},
    };
    snprintf(name, sizeof name, "sendmmsg, %s", what);
    say(name, count, sendmmsg(a, many, 2, 0));
    printf("%u and %u\n", many[0].msg_len, many[1].msg_len);
    cut(count, each);
    many[0].msg_hdr = many[1].msg_hdr = (struct msghdr){.msg_iov = in, .msg_iovlen = count};
    snprintf(name, sizeof name, "recvmmsg, %s", what);
    say(name, count, recvmmsg(b, many, 2, 0, NULL));
    printf("%u and %u\n", many[0].msg_len, many[1].msg_len);
    close(a);
    close(b);
}

static int internet(int kind, int *other) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int s = socket(AF_INET, kind, 0);
    bind(s, (void *)&address, length);
    getsockname(s, (void *)&address, &length);
    *other = socket(AF_INET, kind, 0);
    if (kind == SOCK_STREAM) {
        listen(s, 1);
        connect(*other, (void *)&address, length);
        int accepted = accept(s, NULL, NULL);
        close(s);
        return accepted;
    }
    connect(*other, (void *)&address, length);
    return s;
}

static void kinds(int count, int each) {
    int p[2];
    files(count, each);
    pipe(p);
    ends("pipe", p[1], p[0], count, each);
    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    ends("local stream", p[0], p[1], count, each);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, p);
    ends("local datagrams", p[0], p[1], count, each);
    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, p);
    ends("local packets", p[0], p[1], count, each);
    p[1] = internet(SOCK_STREAM, &p[0]);
    ends("stream", p[0], p[1], count, each);
    p[1] = internet(SOCK_DGRAM, &p[0]);
    ends("datagrams", p[0], p[1], count, each);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, p);
    messages("local datagrams", p[0], p[1], count, each, NULL, 0);
    p[1] = internet(SOCK_DGRAM, &p[0]);
    messages("datagrams", p[0], p[1], count, each, NULL, 0);
    cut(count, each);
    say("process_vm_readv", count, process_vm_readv(getpid(), in, count, out, count, 0));
    puts(compare(count, (long)count * each));
}

/* A pipe that does not take all at once: a call that waits writes all. */
static void filled(void) {
    int p[2];
    static char big[4 << 20];
    pipe(p);
    pid_t child = fork();
    if (child == 0) {
        close(p[1]);
        long sum = 0, got;
        while ((got = read(p[0], big, sizeof big)) > 0) {
            sum += got;
        }
        printf("the reader had %ld\n", sum);
        fflush(stdout);
        _exit(0);
    }
    close(p[0]);
    for (int i = 0; i < MOST; i++) {
        out[i] = (struct iovec){big + i * 4096, 4096};
    }
    long done = writev(p[1], out, MOST);
    close(p[1]);
    waitpid(child, NULL, 0);
    say("writev, more than a pipe holds", MOST, done);
}

static void wrong(void) {
    int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDWR), p[2];
    char name[] = "/tmp/many-pieces-XXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    pipe(p);
    cut(MOST, 10);
    out[MOST] = out[0];
    in[MOST] = in[0];
    say("writev", MOST + 1, writev(fd, out, MOST + 1));
    say("readv", MOST + 1, readv(fd, in, MOST + 1));
    say("writev, null", MOST, writev(null, out, MOST));
    say("readv, null", MOST, readv(null, in, MOST));
    say("readv, zero", MOST, readv(zero, in, MOST));
    struct msghdr message = {.msg_iov = out, .msg_iovlen = MOST + 1};
    int s[2];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, s);
    say("sendmsg", MOST + 1, sendmsg(s[0], &message, 0));
    static const int places[] = {1, 63, 64, 65, 1000, MOST - 1};
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        int at = places[i];
        char text[60];
        cut(MOST, 10);
        out[at].iov_len = -1;
        snprintf(text, sizeof text, "piece %d is of no length", at);
        say(text, MOST, writev(fd, out, MOST));
        message = (struct msghdr){.msg_iov = out, .msg_iovlen = MOST};
        say(text, MOST, sendmsg(s[0], &message, 0));
        cut(MOST, 10);
        out[at].iov_base = (void *)8;
        snprintf(text, sizeof text, "piece %d is not there", at);
        message = (struct msghdr){.msg_iov = out, .msg_iovlen = MOST};
        say(text, MOST, sendmsg(s[0], &message, MSG_DONTWAIT));
        out[at].iov_base = (void *)-4096L;
        snprintf(text, sizeof text, "piece %d is above", at);
        say(text, MOST, writev(fd, out, MOST));
    }
    /* An array that ends where there is no memory. */
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    cut(MOST, 10);
    struct iovec *last = (struct iovec *)(pages + 4096) - 100;
    memcpy(last, out, 100 * sizeof *last);
    say("an array whose end is there", 100, writev(fd, last, 100));
    say("an array whose end is not there", 101, writev(fd, last, 101));
    say("an array whose end is not there", MOST, writev(fd, last, MOST));
    /* Empty ones count among the most, and nothing is written of them. */
    for (int i = 0; i < MOST; i++) {
        out[i].iov_len = i == MOST - 1;
    }
    say("all empty but the last", MOST, writev(fd, out, MOST));
    out[MOST - 1].iov_len = 0;
    say("all empty", MOST, writev(fd, out, MOST));
}

int main(void) {
    setbuf(stdout, NULL);
    for (unsigned i = 0; i < sizeof from; i++) {
        from[i] = i * 7 + i / 251;
    }
    static const int counts[] = {63, 64, 65, 100, 127, 129, 1000, 1023, MOST};
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
        kinds(counts[i], 13);
        kinds(counts[i], 50);
    }
    filled();
    wrong();
    return 0;
}
