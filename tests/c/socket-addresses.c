/* What bind, connect and sendto say of addresses of other families and lengths, with no interface, and of several machines; addresses that the machine has
   not (IP_FREEBIND, IP_TRANSPARENT); names that are told of datagrams (IP_RECVORIGDSTADDR). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef IPV6_TRANSPARENT
#define IPV6_TRANSPARENT 75
#endif
#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78
#endif
#ifndef IPV6_RECVORIGDSTADDR
#define IPV6_RECVORIGDSTADDR 74
#endif

static struct {
    const char *name;
    struct sockaddr_storage at;
    socklen_t length;
} addresses[64];
static int count;

static void add(const char *name, const void *at, size_t size, long length) {
    memset(&addresses[count].at, 0, sizeof addresses[count].at);
    memcpy(&addresses[count].at, at, size);
    addresses[count].name = name;
    addresses[count++].length = (socklen_t)length;
}

static void four(const char *name, int family, unsigned address, int port, long length) {
    struct sockaddr_in at = {.sin_family = family, .sin_port = htons(port), .sin_addr.s_addr = htonl(address)};
    add(name, &at, sizeof at, length);
}

static void six(const char *name, const char *address, int port, unsigned scope, long length) {
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_scope_id = scope};
    inet_pton(AF_INET6, address, &at.sin6_addr);
    add(name, &at, sizeof at, length);
}

static void all_addresses(void) {
    static const long lengths[] = {16, 15, 8, 128, 129, 1, 2, -1};
    for (int i = 0; i < 8; i++) {
        four("own", AF_INET, INADDR_LOOPBACK, 9, lengths[i]);
    }
    four("own, any port", AF_INET, INADDR_LOOPBACK, 0, 16);
    four("any", AF_INET, INADDR_ANY, 9, 16);
    four("everybody", AF_INET, INADDR_BROADCAST, 9, 16);
    four("group", AF_INET, INADDR_ALLHOSTS_GROUP, 9, 16);
    four("far", AF_INET, 0x0a0b0c0d, 9, 16);
    static const long lengths6[] = {28, 27, 24, 23, 16};
    for (int i = 0; i < 5; i++) {
        six("own of IPv6", "::1", 9, 0, lengths6[i]);
    }
    six("any of IPv6", "::", 9, 0, 28);
    six("near", "fe80::1", 9, 0, 28);
    six("near by 1", "fe80::1", 9, 1, 28);
    six("near by 77", "fe80::1", 9, 77, 28);
    six("group of IPv6", "ff02::1", 9, 0, 28);
    six("far of IPv6", "2001:db8::1", 9, 0, 28);
    four("family 99", 99, 0, 0, 28);
    four("local", AF_UNIX, 0, 0, 2);
    four("netlink", AF_NETLINK, 0, 0, 12);
    four("packet", AF_PACKET, 0, 0, 20);
}

static int said(int result) { return result >= 0 ? 0 : errno; }

static void each(const char *kind, int family, int type, int protocol) {
    for (int what = 0; what < 3; what++) {
        printf("%s, %s:", kind, what == 0 ? "bind" : what == 1 ? "connect" : "sendto");
        for (int i = 0; i < count; i++) {
            struct sockaddr *at = (struct sockaddr *)&addresses[i].at;
            int family_of = at->sa_family, raw = type == SOCK_RAW;
            /* (A raw socket of IPv4 is bound to whatever lies where an address of IPv4 would.) */
            if (raw && family == AF_INET && what == 0 && family_of != AF_INET) {
                continue;
            }
            int fd = socket(family, type | SOCK_NONBLOCK, protocol);
            int result = what == 0 ? bind(fd, at, addresses[i].length)
                         : what == 1 ? connect(fd, at, addresses[i].length)
                                     : (int)sendto(fd, "abcdefgh", 8, MSG_NOSIGNAL, at, addresses[i].length);
            printf(" %s (%d) %d;", addresses[i].name, (int)addresses[i].length, said(result));
            close(fd);
        }
        puts("");
    }
}

static int on(int fd, int level, int option) {
    int one = 1;
    return setsockopt(fd, level, option, &one, sizeof one) == 0 ? 0 : errno;
}

/* Addresses that the machine has not. */
static void foreign(int family, int level, int option) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(5555), .sin_addr.s_addr = htonl(0x0a010203)};
    struct sockaddr_in6 at6 = {.sin6_family = AF_INET6, .sin6_port = htons(5555)};
    inet_pton(AF_INET6, "2001:db8::9", &at6.sin6_addr);
    const struct sockaddr *name = family == AF_INET ? (void *)&at : (void *)&at6;
    socklen_t length = family == AF_INET ? sizeof at : sizeof at6;
    for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
        int fd = socket(family, type, 0), before = bind(fd, name, length);
        printf("foreign %d %d %d: %d", family, option, type, said(before));
        printf(" %d", on(fd, level, option));
        printf(" %d\n", said(bind(fd, name, length)));
        close(fd);
    }
}

/* Where datagrams were sent to. */
static void original(int family, int level, int option) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 at6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr *name = family == AF_INET ? (void *)&at : (void *)&at6;
    socklen_t length = family == AF_INET ? sizeof at : sizeof at6;
    int fd = socket(family, SOCK_DGRAM, 0), from = socket(family, SOCK_DGRAM, 0);
    bind(fd, name, length);
    getsockname(fd, name, &length);
    printf("original %d: %d;", family, on(fd, level, option));
    for (int room = 100; room > 0; room -= 83) {
        char bytes[10], control[100];
        struct iovec piece = {bytes, sizeof bytes};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room};
        sendto(from, "abc", 3, 0, name, length);
        printf(" %zd, flags %x", recvmsg(fd, &message, 0), message.msg_flags);
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL && room == 100; c = CMSG_NXTHDR(&message, c)) {
            printf(", %d %d: %zu bytes, %s", c->cmsg_level, c->cmsg_type, c->cmsg_len - CMSG_LEN(0),
                   memcmp(CMSG_DATA(c), name, length) == 0 ? "right" : "wrong");
        }
    }
    puts("");
    close(fd);
    close(from);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    all_addresses();
    each("stream of IPv4", AF_INET, SOCK_STREAM, 0);
    each("stream of IPv6", AF_INET6, SOCK_STREAM, 0);
    each("datagrams of IPv4", AF_INET, SOCK_DGRAM, 0);
    each("datagrams of IPv6", AF_INET6, SOCK_DGRAM, 0);
    each("packets of IPv4", AF_INET, SOCK_RAW, 253);
    each("packets of IPv6", AF_INET6, SOCK_RAW, 253);
    foreign(AF_INET, IPPROTO_IP, IP_FREEBIND);
    foreign(AF_INET, IPPROTO_IP, IP_TRANSPARENT);
    foreign(AF_INET6, IPPROTO_IPV6, IPV6_FREEBIND);
    foreign(AF_INET6, IPPROTO_IPV6, IPV6_TRANSPARENT);
    original(AF_INET, IPPROTO_IP, IP_RECVORIGDSTADDR);
    original(AF_INET6, IPPROTO_IPV6, IPV6_RECVORIGDSTADDR);
    return 0;
}
