/* Rarer options of sockets, with their widths and refusals, and datagrams of UDP that several sends make, or of which one send makes several. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CORK = 1, ENCAP = 100, SEGMENT = 103, GRO = 104, UDP = 17 };

static void say(const char *what, long result) {
    if (result == -1) {
        printf("%s: %s\n", what, strerror(errno));
    } else {
        printf("%s: %ld\n", what, result);
    }
}

#define SAY(call) say(#call, (long)(call))

/* With `shown` 0 the value is the system's own. */
static void get(int fd, int level, int option, int length, int shown) {
    unsigned char value[64];
    socklen_t room = length;
    memset(value, 0xee, sizeof value);
    int result = getsockopt(fd, level, option, value, &room);
    printf("get %d %d: ", level, option);
    if (result < 0) {
        printf("%s\n", strerror(errno));
        return;
    }
    printf("%u bytes", room);
    for (unsigned at = 0; shown && at < room; at++) {
        printf(" %02x", value[at]);
    }
    printf("\n");
}

static void set(int fd, int level, int option, long value, int length) {
    printf("set %d %d to %ld (%d) ", level, option, value, length);
    SAY(setsockopt(fd, level, option, &value, length));
}

static void options(int fd) {
    static const int plain[] = {44, 46, 48, 49, 56, 58, 60, 62, 68, 69, 70, 72, 73, 74, 75};
    for (unsigned at = 0; at < sizeof plain / sizeof *plain; at++) {
        get(fd, 1, plain[at], 8, 1);
    }
    get(fd, 1, 47, 8, 1);
    get(fd, 1, 47, 4, 1);
    set(fd, 1, 47, 100000, 4);
    get(fd, 1, 47, 8, 1);
    set(fd, 1, 47, 1L << 33, 8);
    get(fd, 1, 47, 8, 1);
    get(fd, 1, 47, 4, 1);
    set(fd, 1, 47, -1, 4);
    get(fd, 1, 47, 8, 1);
    get(fd, 1, 55, 64, 0);
    get(fd, 1, 55, 10, 0);
    get(fd, 1, 57, 8, 0);
    get(fd, 1, 57, 4, 0);
    get(fd, 1, 61, 8, 1);
    set(fd, 1, 61, 1, 8);
    get(fd, 1, 61, 8, 1);
    set(fd, 1, 61, 1, 4);
    set(fd, 1, 61, 1L << 34, 8);
    get(fd, 1, 71, 8, 1);
    for (int option = 55; option <= 57; option++) {
        set(fd, 1, option, 1, 4);
    }
    set(fd, 1, 69, 1, 4);
    get(fd, 1, 69, 4, 1);
    set(fd, 1, 70, 8, 4);
    set(fd, 1, 70, 70000, 4);
    set(fd, 1, 72, 9, 4);
    set(fd, 1, 74, 0, 4);
    get(fd, 1, 74, 4, 1);
    set(fd, 1, 74, -1, 4);
    get(fd, 1, 74, 4, 1);
    set(fd, 1, 74, 5, 4);
    set(fd, 1, 75, 9, 4);
    get(fd, 1, 75, 4, 1);
    set(fd, 1, 44, 1, 4);
    set(fd, 1, 44, 0, 4);
    SAY(seteuid(1000));
    set(fd, 1, 61, 11, 8);
    set(fd, 1, 69, 1, 4);
    set(fd, 1, 70, 9, 4);
    SAY(seteuid(0));
}

/* What comes within a while. */
static void next(int fd) {
    char text[64];
    struct pollfd one = {fd, POLLIN, 0};
    poll(&one, 1, 200);
    int count = recv(fd, text, sizeof text, MSG_DONTWAIT);
    if (count < 0) {
        printf("%s\n", strerror(errno));
    } else {
        printf("%d: %.*s\n", count, count, text);
    }
}

static void pieces(void) {
    static char large[65507];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, none = to;
    socklen_t length = sizeof to;
    int r = socket(AF_INET, SOCK_DGRAM, 0), u = socket(AF_INET, SOCK_DGRAM, 0);
    bind(r, (void *)&to, length);
    getsockname(r, (void *)&to, &length);
    SAY(send(u, "a", 1, MSG_MORE));
    connect(u, (void *)&to, length);
    get(u, UDP, CORK, 4, 1);
    set(u, UDP, CORK, 1, 4);
    get(u, UDP, CORK, 4, 1);
    SAY(send(u, "ab", 2, 0));
    SAY(send(u, "cd", 2, 0));
    next(r);
    set(u, UDP, CORK, 0, 4);
    next(r);
    next(r);
    SAY(send(u, "ab", 2, MSG_MORE));
    SAY(send(u, "cd", 2, MSG_MORE));
    next(r);
    SAY(send(u, "ef", 2, 0));
    next(r);
    SAY(send(u, "ab", 2, MSG_MORE));
    none.sin_port = htons(9);
    SAY(sendto(u, "cd", 2, 0, (void *)&none, sizeof none));
    next(r);
    SAY(send(u, "gh", 2, MSG_MORE));
    SAY(send(u, "", 0, 0));
    next(r);
    SAY(send(u, "ij", 2, MSG_MORE));
    SAY(send(u, large, sizeof large, 0));
    next(r);
    SAY(send(u, "kl", 2, 0));
    next(r);
    set(u, UDP, SEGMENT, 3, 4);
    get(u, UDP, SEGMENT, 4, 1);
    SAY(send(u, "abcdefgh", 8, 0));
    for (int count = 0; count < 4; count++) {
        next(r);
    }
    SAY(send(u, large, 3 * 128 + 1, 0));
    SAY(send(u, "ab", 2, 0));
    next(r);
    set(u, UDP, SEGMENT, 70000, 4);
    set(u, UDP, SEGMENT, -1, 4);
    set(u, UDP, SEGMENT, 0, 4);
    SAY(send(u, "abcdefgh", 8, 0));
    next(r);
    set(u, UDP, GRO, 1, 4);
    get(u, UDP, GRO, 4, 1);
    get(u, UDP, ENCAP, 4, 1);
    set(u, UDP, 55, 1, 4);
    /* What is held goes with its socket. */
    SAY(send(u, "lost", 4, MSG_MORE));
    close(u);
    next(r);
}

int main(void) {
    int pair[2];
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    int stream = socket(AF_INET, SOCK_STREAM, 0), datagram = socket(AF_INET, SOCK_DGRAM, 0);
    options(stream);
    options(datagram);
    get(stream, 1, 17, 12, 1);
    get(stream, 1, 26, 8, 1);
    get(stream, 1, 59, 8, 1);
    set(stream, 1, 60, 1, 4);
    set(stream, 1, 60, 2, 4);
    get(stream, 1, 60, 4, 1);
    bind(stream, (void *)&any, sizeof any);
    get(pair[0], 1, 25, 8, 1);
    options(pair[0]);
    pieces();
    return 0;
}
