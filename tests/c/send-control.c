/* Control messages of sends: which levels, numbers and lengths each kind of socket takes, and what those that are taken do. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union name {
    struct sockaddr plain;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static union {
    char bytes[512];
    struct cmsghdr head;
} control;
static size_t used;

static void begin(void) {
    memset(&control, 0, sizeof control);
    used = 0;
}

static void add(int level, int number, const void *data, size_t length) {
    struct cmsghdr *head = (struct cmsghdr *)(control.bytes + used);
    head->cmsg_level = level;
    head->cmsg_type = number;
    head->cmsg_len = CMSG_LEN(length);
    memcpy(CMSG_DATA(head), data, length);
    used += CMSG_SPACE(length);
}

static int put(int fd, union name *to, socklen_t length) {
    struct iovec part = {"x", 1};
    struct msghdr message = {to, to ? length : 0, &part, 1, control.bytes, used, 0};
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 0 : errno;
}

static int numbers_of(int level, int at) {
    static const int socket_level[] = {1, 2, 3, 4, 29, 36, 37, 42, 55, 61, 65, 82, 12, 0, 77, 1000};
    static const int ip_level[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 19, 20, 52, 53, 1000};
    static const int ipv6_level[] = {0, 1, 2, 6, 8, 11, 16, 49, 50, 51, 52, 61, 62, 66, 67, 74, 76, 1000};
    static const int udp_level[] = {0, 1, 103, 104, 1000};
    static const int others[] = {0, 1, 5, 1000};
    switch (level) {
    case 1:
        return at < 16 ? socket_level[at] : -1;
    case 0:
        return at < 19 ? ip_level[at] : -1;
    case 41:
        return at < 18 ? ipv6_level[at] : -1;
    case 17:
        return at < 5 ? udp_level[at] : -1;
    }
    return at < 4 ? others[at] : -1;
}

static void drain(int fd) {
    char bytes[256];
    while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
}

/* Every level and number that means something with every length, and what is sent is zeros or small numbers. */
static void table(const char *what, int fd, union name *to, socklen_t length, int peer) {
    static const int levels[] = {1, 0, 41, 17, 6, 58, 255, 263, 270, 99};
    static const int lengths[] = {0, 1, 2, 3, 4, 5, 8, 12, 16, 20, 24};
    static const int values[] = {-1, 0, 1, 64, 255, 256};
    for (unsigned level = 0; level < sizeof levels / sizeof *levels; level++) {
        for (int at = 0; numbers_of(levels[level], at) >= 0; at++) {
            int number = numbers_of(levels[level], at);
            if (levels[level] == 1 && (number == 1 || number == 2)) {
                continue;
            }
            printf("%s %d %d:", what, levels[level], number);
            for (unsigned size = 0; size < sizeof lengths / sizeof *lengths; size++) {
                char data[32] = {0};
                begin();
                add(levels[level], number, data, lengths[size]);
                printf(" %d", put(fd, to, length));
            }
            printf(" |");
            for (unsigned value = 0; value < sizeof values / sizeof *values; value++) {
                begin();
                add(levels[level], number, &values[value], 4);
                printf(" %d", put(fd, to, length));
            }
            printf("\n");
            drain(peer);
        }
    }
    /* Headers that are too short and too long. */
    printf("%s headers:", what);
    for (size_t size = 0; size <= 48; size += 4) {
        int zero = 0;
        begin();
        add(99, 1, &zero, 4);
        control.head.cmsg_len = size;
        printf(" %d", put(fd, to, length));
    }
    printf("\n%s control of a few bytes:", what);
    for (used = 0; used <= 24; used++) {
        size_t keep = used;
        begin();
        control.head.cmsg_len = 20;
        control.head.cmsg_level = 99;
        used = keep;
        printf(" %d", put(fd, to, length));
    }
    printf("\n");
}

static socklen_t bound(int fd, int family, const char *address, union name *at) {
    socklen_t length = sizeof *at;
    memset(at, 0, sizeof *at);
    at->plain.sa_family = family;
    inet_pton(family, address, family == AF_INET ? (void *)&at->v4.sin_addr : &at->v6.sin6_addr);
    bind(fd, &at->plain, family == AF_INET ? sizeof at->v4 : sizeof at->v6);
    getsockname(fd, &at->plain, &length);
    return length;
}

/* What the receiver is told. */
static void told(const char *what, int result, int fd) {
    char byte, room[512], text[64];
    union name from;
    struct iovec part = {&byte, 1};
    struct msghdr message = {&from, sizeof from, &part, 1, room, sizeof room, 0};
    printf("%s: %d", what, result);
    if (recvmsg(fd, &message, MSG_DONTWAIT) == 1) {
        printf(" from %s", inet_ntop(from.plain.sa_family, from.plain.sa_family == AF_INET ? (void *)&from.v4.sin_addr : &from.v6.sin6_addr, text, sizeof text));
        for (struct cmsghdr *of = CMSG_FIRSTHDR(&message); of; of = CMSG_NXTHDR(&message, of)) {
            int value = of->cmsg_len == CMSG_LEN(1) ? *CMSG_DATA(of) : *(int *)CMSG_DATA(of);
            printf(" (%d %d: %d)", of->cmsg_level, of->cmsg_type, value);
        }
    }
    printf("\n");
}

static void works4(void) {
    union name at;
    int fd = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0), yes = 1;
    socklen_t length = bound(to, AF_INET, "127.0.0.1", &at);
    setsockopt(to, IPPROTO_IP, IP_RECVTTL, &yes, sizeof yes);
    setsockopt(to, IPPROTO_IP, IP_RECVTOS, &yes, sizeof yes);
    static const int values[] = {1, 5, 255};
    for (int each = 0; each < 3; each++) {
        begin();
        add(IPPROTO_IP, IP_TTL, &values[each], 4);
        told("ttl", put(fd, &at, length), to);
        begin();
        add(IPPROTO_IP, IP_TOS, &values[each], 4);
        told("tos", put(fd, &at, length), to);
        unsigned char byte = values[each];
        begin();
        add(IPPROTO_IP, IP_TOS, &byte, 1);
        told("tos of a byte", put(fd, &at, length), to);
    }
    static const char *const addresses[] = {"127.0.0.9", "0.0.0.0", "192.0.2.1", "224.0.0.1", "255.255.255.255"};
    for (int each = 0; each < 5; each++) {
        for (int interface = 0; interface < 3; interface++) {
            struct in_pktinfo info = {interface == 2 ? 99 : interface, {0}, {0}};
            inet_pton(AF_INET, addresses[each], &info.ipi_spec_dst);
            begin();
            add(IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
            char text[64];
            snprintf(text, sizeof text, "from %s by %d", addresses[each], info.ipi_ifindex);
            told(text, put(fd, &at, length), to);
        }
    }
    /* Several, of which the last one counts. */
    begin();
    add(IPPROTO_IP, IP_TTL, &values[0], 4);
    add(99, 1, &values[0], 4);
    add(IPPROTO_IP, IP_TTL, &values[1], 4);
    told("twice", put(fd, &at, length), to);
    close(fd);
    close(to);
}

static void works6(void) {
    union name at;
    int fd = socket(AF_INET6, SOCK_DGRAM, 0), to = socket(AF_INET6, SOCK_DGRAM, 0), yes = 1;
    socklen_t length = bound(to, AF_INET6, "::1", &at);
    setsockopt(to, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &yes, sizeof yes);
    setsockopt(to, IPPROTO_IPV6, IPV6_RECVTCLASS, &yes, sizeof yes);
    static const int values[] = {-1, 0, 1, 5, 255};
    for (int each = 0; each < 5; each++) {
        begin();
        add(IPPROTO_IPV6, IPV6_HOPLIMIT, &values[each], 4);
        told("hops", put(fd, &at, length), to);
        begin();
        add(IPPROTO_IPV6, IPV6_TCLASS, &values[each], 4);
        told("class", put(fd, &at, length), to);
    }
    static const char *const addresses[] = {"::1", "::", "2001:db8::1", "ff02::1", "::ffff:127.0.0.1"};
    for (int each = 0; each < 5; each++) {
        for (int interface = 0; interface < 3; interface++) {
            struct in6_pktinfo info = {{{{0}}}, interface == 2 ? 99 : interface};
            inet_pton(AF_INET6, addresses[each], &info.ipi6_addr);
            begin();
            add(IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
            char text[64];
            snprintf(text, sizeof text, "from %s by %d", addresses[each], interface == 2 ? 99 : interface);
            told(text, put(fd, &at, length), to);
        }
    }
    close(fd);
    close(to);
}

int main(void) {
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    union name at;
    int fd = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
    socklen_t length = bound(to, AF_INET, "127.0.0.1", &at);
    table("udp", fd, &at, length, to);
    close(fd);
    close(to);

    fd = socket(AF_INET6, SOCK_DGRAM, 0), to = socket(AF_INET6, SOCK_DGRAM, 0);
    length = bound(to, AF_INET6, "::1", &at);
    table("udp6", fd, &at, length, to);
    close(to);
    to = socket(AF_INET6, SOCK_DGRAM, 0);
    length = bound(to, AF_INET6, "::ffff:127.0.0.1", &at);
    table("mapped", fd, &at, length, to);
    close(fd);
    close(to);

    fd = socket(AF_INET, SOCK_RAW, 253);
    memset(&at, 0, sizeof at);
    at.v4.sin_family = AF_INET;
    at.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    table("raw", fd, &at, sizeof at.v4, fd);
    close(fd);

    for (int family = 0; family < 2; family++) {
        int l = socket(family ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
        length = bound(l, family ? AF_INET6 : AF_INET, family ? "::1" : "127.0.0.1", &at);
        listen(l, 1);
        fd = socket(family ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
        connect(fd, &at.plain, length);
        int peer = accept(l, NULL, NULL);
        table(family ? "tcp6" : "tcp", fd, NULL, 0, peer);
        close(peer);
        close(fd);
        close(l);
    }

    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    table("local", pair[0], NULL, 0, pair[1]);
    close(pair[0]);
    close(pair[1]);

    /* Frames, and messages of netlink(7) that are too short to say anything. */
    struct sockaddr_ll frame = {AF_PACKET, htons(0x88b5), if_nametoindex("lo"), 0, 0, 6, {0}};
    fd = socket(AF_PACKET, SOCK_DGRAM, 0);
    table("frames", fd, (union name *)&frame, sizeof frame, fd);
    close(fd);
    struct {
        unsigned short family, pad;
        unsigned pid, groups;
    } kernel = {AF_NETLINK, 0, 0, 0};
    fd = socket(AF_NETLINK, SOCK_RAW, 0);
    table("netlink", fd, (union name *)&kernel, sizeof kernel, fd);
    close(fd);

    works4();
    works6();

    if (setuid(1000)) {
        return 1;
    }
    fd = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
    length = bound(to, AF_INET, "127.0.0.1", &at);
    for (int size = 0; size <= 8; size += 4) {
        char data[8] = {0};
        begin();
        add(SOL_SOCKET, 36, data, size);
        printf("a user's mark: %d\n", put(fd, &at, length));
    }
    return 0;
}
