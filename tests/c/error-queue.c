/* What ICMP says of datagrams (IP_RECVERR, MSG_ERRQUEUE), and which of its messages a raw socket wants (ICMP_FILTER, ICMP6_FILTER). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/icmp6.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* What <linux/errqueue.h> and <linux/icmp.h> say. */
struct extended { uint32_t number; uint8_t origin, type, code, pad; uint32_t info, data; };
#define FILTER 1
#define RAW 255

static void say(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
    fflush(stdout);
}

static void ready(const char *what, int fd) {
    struct pollfd p = {fd, POLLIN, 0};
    poll(&p, 1, 100);
    printf("%s: %#x\n", what, p.revents);
}

static void queued(const char *what, int fd, size_t room, size_t control_room) {
    char text[200] = {0}, control[256], name[64];
    struct sockaddr_storage to;
    struct iovec piece = {text, room};
    /* (The C libraries have its members in other orders.) */
    struct msghdr m = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = control_room};
    long count = recvmsg(fd, &m, MSG_ERRQUEUE);
    if (count < 0) {
        say(what, count);
        return;
    }
    int v4 = to.ss_family == AF_INET;
    void *address = v4 ? (void *)&((struct sockaddr_in *)&to)->sin_addr : (void *)&((struct sockaddr_in6 *)&to)->sin6_addr;
    inet_ntop(to.ss_family, address, name, sizeof name);
    printf("%s: %ld \"%.*s\" flags %#x to %s %d (%u)", what, count, (int)count, text, m.msg_flags, name, ntohs(((struct sockaddr_in *)&to)->sin_port), m.msg_namelen);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        struct extended e = {0};
        memcpy(&e, CMSG_DATA(c), sizeof e);
        printf(" [%d %d %zu:", c->cmsg_level, c->cmsg_type, (size_t)c->cmsg_len);
        if (c->cmsg_len < CMSG_LEN(sizeof e)) {
            printf("]");
            continue;
        }
        struct sockaddr *who = (struct sockaddr *)(CMSG_DATA(c) + sizeof e);
        if (who->sa_family == AF_INET)
            inet_ntop(AF_INET, &((struct sockaddr_in *)who)->sin_addr, name, sizeof name);
        else if (who->sa_family == AF_INET6)
            inet_ntop(AF_INET6, &((struct sockaddr_in6 *)who)->sin6_addr, name, sizeof name);
        else
            strcpy(name, "nobody");
        printf(" %u %u %u %u %u %u %s]", e.number, e.origin, e.type, e.code, e.info, e.data, name);
    }
    printf("\n");
    fflush(stdout);
}

static int error_of(int fd) {
    int value = -1;
    socklen_t size = sizeof value;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &size);
    return value;
}

static void error(const char *what, int fd) {
    say(what, error_of(fd));
}

static void datagrams(int family) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } to = {0};
    int v4 = family == AF_INET, on = 1, off = 0;
    int level = v4 ? IPPROTO_IP : IPPROTO_IPV6, option = v4 ? IP_RECVERR : IPV6_RECVERR;
    socklen_t size = v4 ? sizeof to.v4 : sizeof to.v6;
    to.any.sa_family = family;
    to.v4.sin_port = htons(9);
    if (v4)
        to.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        to.v6.sin6_addr = in6addr_loopback;
    int s = socket(family, SOCK_DGRAM, 0);
    say("nobody there", sendto(s, "first", 5, 0, &to.any, size));
    ready("not asked for", s);
    queued("nothing", s, 100, 200);
    say("asked", setsockopt(s, level, option, &on, sizeof on));
    say("nobody there", sendto(s, "second", 6, 0, &to.any, size));
    ready("an error", s);
    say("the next call", send(s, "x", 1, 0));
    queued("why", s, 100, 200);
    ready("no more", s);
    queued("once", s, 100, 200);
    sendto(s, "third", 5, 0, &to.any, size);
    error("SO_ERROR", s);
    sendto(s, "fourth", 6, 0, &to.any, size);
    error("SO_ERROR again", s);
    queued("cut", s, 2, 200);
    error("SO_ERROR of the next", s);
    queued("no room for why", s, 100, 8);
    error("SO_ERROR of none", s);
    char byte;
    sendto(s, "fifth", 5, 0, &to.any, size);
    say("read", recv(s, &byte, 1, MSG_DONTWAIT));
    queued("after a read", s, 100, 200);
    sendto(s, "sixth", 5, 0, &to.any, size);
    say("not any more", setsockopt(s, level, option, &off, sizeof off));
    queued("gone", s, 100, 200);
    error("and its error", s);
    say("connect", connect(s, &to.any, size));
    setsockopt(s, level, option, &on, sizeof on);
    say("connected", send(s, "seventh", 7, 0));
    queued("of the peer", s, 100, 200);
    /* Who does not look keeps no more than there is room for. */
    int refused = 0;
    for (int i = 0; i < 5000; i++) {
        error_of(s);
        refused += send(s, "many", 4, 0) < 0;
    }
    error_of(s);
    int kept = 0;
    char text[8], control[200];
    for (struct iovec piece = {text, sizeof text}; kept < 5000; kept++) {
        struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        if (recvmsg(s, &m, MSG_ERRQUEUE) < 0)
            break;
    }
    printf("refused %d, kept some: %d, all: %d\n", refused, kept > 10, kept >= 5000);
    close(s);
}

/* So many bytes, for how IP_MTU_DISCOVER stands. */
static void long_ones(const char *what, int s, struct sockaddr *to, socklen_t size, int level, int option) {
    static char bytes[70000];
    for (int way = 0; way < 6; way++) {
        if (setsockopt(s, level, option, &way, sizeof way)) {
            say("not so", way);
            continue;
        }
        printf("%s %d: %zd", what, way, sendto(s, bytes, 1400, 0, to, size));
        printf(" %zd", sendto(s, bytes, 3000, 0, to, size));
        printf(" %d\n", error_of(s));
        queued("queue", s, 100, 200);
        queued("queue", s, 100, 200);
    }
}

/* Too long, and not to be cut: the queue says what would fit. */
static void too_long(int family) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } to = {0};
    int v4 = family == AF_INET, on = 1, way = 2;
    int level = v4 ? IPPROTO_IP : IPPROTO_IPV6, option = v4 ? IP_RECVERR : IPV6_RECVERR, discover = v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER;
    socklen_t size = v4 ? sizeof to.v4 : sizeof to.v6;
    to.any.sa_family = family;
    to.v4.sin_port = htons(4321);
    if (v4)
        to.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        to.v6.sin6_addr = in6addr_loopback;
    static char bytes[70000];
    int r = socket(family, SOCK_DGRAM, 0), s = socket(family, SOCK_DGRAM, 0);
    say("who hears", bind(r, &to.any, size));
    struct ifreq lo = {.ifr_name = "lo", .ifr_mtu = 1500};
    say("a smaller MTU", ioctl(s, SIOCSIFMTU, &lo));
    setsockopt(s, level, discover, &way, sizeof way);
    say("not asked for", sendto(s, bytes, 3000, 0, &to.any, size));
    queued("nothing", s, 100, 200);
    setsockopt(s, level, option, &on, sizeof on);
    sendto(s, bytes, 3000, 0, &to.any, size);
    ready("an error", s);
    queued("why", s, 100, 200);
    ready("no more", s);
    long_ones("to", s, &to.any, size, level, discover);
    say("connect", connect(s, &to.any, size));
    long_ones("connected", s, 0, 0, level, discover);
    say("the last byte that fits", send(s, bytes, 1500 - (v4 ? 28 : 48), 0));
    lo.ifr_mtu = 65536;
    say("as it was", ioctl(s, SIOCSIFMTU, &lo));
    if (v4) {
        way = 1;
        setsockopt(s, level, discover, &way, sizeof way);
        say("the longest", send(s, bytes, 65507, 0));
        say("longer", send(s, bytes, 65508, 0));
        queued("why", s, 100, 200);
    }
    close(r);
    close(s);
}

/* Some echoes: is the answer seen? */
static void filters(void) {
    struct sockaddr_in6 to = {AF_INET6, 0, 0, IN6ADDR_LOOPBACK_INIT, 0};
    struct icmp6_filter filter;
    char bytes[200];
    socklen_t size = sizeof filter;
    int r = socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
    unsigned char echo[16] = {ICMP6_ECHO_REQUEST, 0, 0, 0, 1, 2, 0, 1, 'p', 'i', 'n', 'g'};
    say("filter", getsockopt(r, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, &size));
    printf("size %u, %#x %#x\n", size, filter.icmp6_filt[0], filter.icmp6_filt[7]);
    ICMP6_FILTER_SETBLOCKALL(&filter);
    ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &filter);
    say("only answers", setsockopt(r, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, sizeof filter));
    say("echo", sendto(r, echo, 16, 0, (void *)&to, sizeof to));
    for (int i = 0; i < 2; i++) {
        long count = recv(r, bytes, sizeof bytes, MSG_DONTWAIT);
        printf("received %ld of type %d\n", count, count > 0 ? (unsigned char)bytes[0] : 0);
    }
    ICMP6_FILTER_SETBLOCKALL(&filter);
    say("a part of it", setsockopt(r, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, 4));
    say("nothing", setsockopt(r, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, sizeof filter));
    sendto(r, echo, 16, 0, (void *)&to, sizeof to);
    say("received", recv(r, bytes, sizeof bytes, MSG_DONTWAIT));
    say("another option", setsockopt(r, IPPROTO_ICMPV6, 2, &filter, sizeof filter));
    close(r);
    int u = socket(AF_INET6, SOCK_RAW, 253);
    say("of another protocol", setsockopt(u, IPPROTO_ICMPV6, ICMP6_FILTER, &filter, sizeof filter));
    close(u);

    struct sockaddr_in v4 = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {0}};
    unsigned char four[16] = {8, 0, 0xf7, 0xff, 0, 0, 0, 0, 0};
    uint32_t mask = 1 << 8;
    r = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    say("no echoes", setsockopt(r, RAW, FILTER, &mask, sizeof mask));
    size = sizeof mask;
    say("the filter", getsockopt(r, RAW, FILTER, &mask, &size));
    printf("size %u, %#x\n", size, mask);
    sendto(r, four, 16, 0, (void *)&v4, sizeof v4);
    for (int i = 0; i < 2; i++) {
        long count = recv(r, bytes, sizeof bytes, MSG_DONTWAIT);
        printf("received %ld of type %d\n", count, count > 20 ? (unsigned char)bytes[20] : 0);
    }
    close(r);
    u = socket(AF_INET, SOCK_RAW, 253);
    say("of another protocol", setsockopt(u, RAW, FILTER, &mask, sizeof mask));
    close(u);
}

int main(void) {
    datagrams(AF_INET);
    datagrams(AF_INET6);
    too_long(AF_INET);
    too_long(AF_INET6);
    filters();
    return 0;
}
