/* connect(2) with AF_UNSPEC of datagram sockets: which of the address and the port stay, and who gets datagrams then. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union name {
    struct sockaddr plain;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t name(union name *to, int family, const char *address, int port) {
    memset(to, 0, sizeof *to);
    to->plain.sa_family = family;
    if (family == AF_INET) {
        inet_pton(family, address, &to->v4.sin_addr);
        to->v4.sin_port = htons(port);
        return sizeof to->v4;
    }
    inet_pton(family, address, &to->v6.sin6_addr);
    to->v6.sin6_port = htons(port);
    return sizeof to->v6;
}

static int port_of(int fd) {
    union name own;
    socklen_t length = sizeof own;
    memset(&own, 0, sizeof own);
    getsockname(fd, &own.plain, &length);
    return ntohs(own.plain.sa_family == AF_INET ? own.v4.sin_port : own.v6.sin6_port);
}

static void where(const char *when, int fd) {
    union name own;
    socklen_t length = sizeof own;
    char text[64] = "";
    memset(&own, 0, sizeof own);
    getsockname(fd, &own.plain, &length);
    inet_ntop(own.plain.sa_family, own.plain.sa_family == AF_INET ? (void *)&own.v4.sin_addr : &own.v6.sin6_addr, text, sizeof text);
    int port = port_of(fd);
    length = sizeof own;
    int peer = getpeername(fd, &own.plain, &length);
    const char *size = port == 0 ? "none" : port >= 32768 ? "one of the system's" : "its own";
    printf("  %s: %s, port %s, peer %s\n", when, text, size, peer == 0 ? "yes" : strerror(errno));
}

static int join(int fd, int family, const char *address, int port) {
    union name to;
    socklen_t length = name(&to, family, address, port);
    return connect(fd, &to.plain, length) == 0 ? 0 : errno;
}

static int leave(int fd) {
    struct sockaddr none;
    memset(&none, 0, sizeof none);
    return connect(fd, &none, sizeof none) == 0 ? 0 : errno;
}

static int put(int fd, int family, const char *address, int port) {
    union name to;
    socklen_t length = name(&to, family, address, port);
    return sendto(fd, "x", 1, 0, &to.plain, length) == 1 ? 0 : errno;
}

static void got(const char *what, int fd) {
    char byte;
    long count = recv(fd, &byte, 1, MSG_DONTWAIT);
    printf("  %s: %s\n", what, count == 1 ? "a datagram" : strerror(errno));
}

/* Bound to `address` (or not at all) and `port`, used in several ways. */
static void row(int family, const char *far, const char *address, int port, int first) {
    static const char *const firsts[] = {"connected", "sent", "sent and connected", "left alone", "connected twice"};
    int fd = socket(family, SOCK_DGRAM, 0), other = socket(family, SOCK_DGRAM, 0);
    union name at;
    socklen_t length = name(&at, family, far, 0);
    bind(other, &at.plain, length);
    int there = port_of(other);
    printf("%s, bound to %s %d, %s\n", far, address ? address : "nothing", port, firsts[first]);
    if (address) {
        length = name(&at, family, address, port);
        if (bind(fd, &at.plain, length)) {
            printf("  bind: %s\n", strerror(errno));
        }
    }
    where("before", fd);
    if (first == 1 || first == 2) {
        printf("  put %d\n", put(fd, family, far, there));
    }
    if (first != 1 && first != 3) {
        printf("  join %d\n", join(fd, family, far, there));
    }
    if (first == 4) {
        printf("  join %d\n", join(fd, family, far, there + 1 == 61000 ? 40000 : there + 1));
    }
    where("then", fd);
    int old = port_of(fd);
    printf("  leave %d\n", leave(fd));
    where("after", fd);
    printf("  leave %d\n", leave(fd));
    /* Is the port given back? */
    int heir = socket(family, SOCK_DGRAM, 0);
    length = name(&at, family, far, old);
    if (old) {
        printf("  another's bind: %s\n", bind(heir, &at.plain, length) ? strerror(errno) : "ok");
        put(other, family, far, old);
        got("heir", heir);
        got("itself", fd);
    }
    close(heir);
    printf("  send without an address: %d\n", send(fd, "x", 1, 0) == 1 ? 0 : errno);
    printf("  put %d\n", put(fd, family, far, there));
    where("used again", fd);
    put(other, family, far, port_of(fd));
    got("itself", fd);
    printf("  join %d\n", join(fd, family, far, there));
    where("connected again", fd);
    printf("  leave %d\n", leave(fd));
    where("at last", fd);
    length = name(&at, family, far, 0);
    printf("  bind: %s\n", bind(fd, &at.plain, length) ? strerror(errno) : "ok");
    where("bound", fd);
    close(fd);
    close(other);
}

/* What came before stays to be read. */
static void waiting(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), other = socket(AF_INET, SOCK_DGRAM, 0);
    union name at;
    socklen_t length = name(&at, AF_INET, "127.0.0.1", 0);
    bind(other, &at.plain, length);
    printf("waiting: join %d\n", join(fd, AF_INET, "127.0.0.1", port_of(other)));
    put(other, AF_INET, "127.0.0.1", port_of(fd));
    leave(fd);
    got("after", fd);
    where("after", fd);
    close(fd);
    close(other);
}

/* Connected again without AF_UNSPEC: address and port are those of the first time. And what is said of an interface. */
static void again(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    printf("again: join %d\n", join(fd, AF_INET, "127.0.0.2", 7009));
    int port = port_of(fd);
    where("first", fd);
    printf("  join %d\n", join(fd, AF_INET, "127.0.0.3", 7009));
    where("second", fd);
    printf("  %s\n", port == port_of(fd) ? "the same port" : "another port");
    leave(fd);
    where("left", fd);
    char text[32] = "";
    socklen_t room = sizeof text;
    printf("  to lo: %d\n", setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2));
    printf("  join %d\n", join(fd, AF_INET, "127.0.0.1", 7009));
    getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, text, &room);
    printf("  on '%s'\n", text);
    leave(fd);
    room = sizeof text;
    memset(text, 0, sizeof text);
    getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, text, &room);
    printf("  left, on '%s'\n", text);
    close(fd);
}

static void raw(void) {
    int fd = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    printf("raw: join %d\n", join(fd, AF_INET, "127.0.0.2", 0));
    for (int step = 0; step < 2; step++) {
        union name own;
        socklen_t length = sizeof own;
        getsockname(fd, &own.plain, &length);
        printf("  %s\n", inet_ntoa(own.v4.sin_addr));
        leave(fd);
    }
    close(fd);
}

/* Many times, so that nothing is left behind. */
static void often(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), wrong = 0;
    for (int at = 0; at < 40000; at++) {
        wrong += join(fd, AF_INET, "127.0.0.1", 9) != 0;
        wrong += leave(fd) != 0;
    }
    printf("often: %d wrong\n", wrong);
    where("often", fd);
    close(fd);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int first = 0; first < 5; first++) {
        row(AF_INET, "127.0.0.1", NULL, 0, first);
        row(AF_INET, "127.0.0.1", "0.0.0.0", 0, first);
        row(AF_INET, "127.0.0.1", "0.0.0.0", 7001, first);
        row(AF_INET, "127.0.0.1", "127.0.0.1", 0, first);
        row(AF_INET, "127.0.0.1", "127.0.0.1", 7002, first);
        row(AF_INET6, "::1", NULL, 0, first);
        row(AF_INET6, "::1", "::", 7003, first);
        row(AF_INET6, "::1", "::1", 0, first);
        row(AF_INET6, "::1", "::1", 7004, first);
        row(AF_INET6, "::ffff:127.0.0.1", NULL, 0, first);
        row(AF_INET6, "::ffff:127.0.0.1", "::ffff:127.0.0.1", 0, first);
    }
    waiting();
    again();
    raw();
    often();
    return 0;
}
