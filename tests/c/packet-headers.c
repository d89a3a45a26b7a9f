/* What programs add to the headers of packets, and are told of those that came: options of IPv4 (IP_OPTIONS, IP_RECVOPTS), headers of IPv6 (RFC 3542), and
   headers that a raw socket writes itself (IP_HDRINCL). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* (The C libraries do not have all of them.) */
enum { RECVHOP = 53, HOP = 54, BEFORE = 55, RECVRT = 56, RT = 57, RECVDST = 58, DST = 59 };

static void say(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
    fflush(stdout);
}

static void bytes(const unsigned char *from, size_t count) {
    for (size_t at = 0; at < count; at++)
        printf("%02x", from[at]);
}

static int on(int fd, int level, int option) {
    int one = 1;
    return setsockopt(fd, level, option, &one, sizeof one);
}

static void get(const char *what, int fd, int level, int option) {
    unsigned char value[256];
    socklen_t length = sizeof value;
    int result = getsockopt(fd, level, option, value, &length);
    if (result < 0) {
        say(what, result);
        return;
    }
    printf("%s: %u ", what, length);
    bytes(value, length);
    printf("\n");
}

static void set(int fd, int level, int option, const void *value, socklen_t length) {
    printf("set %d %d (%u) ", level, option, length);
    bytes(value, length < 24 ? length : 24);
    say("", setsockopt(fd, level, option, value, length));
}

static unsigned sum(const void *from, size_t count, unsigned before) {
    const unsigned char *at = from;
    for (size_t i = 0; i < count; i++)
        before += i & 1 ? at[i] : at[i] << 8;
    return before;
}

static unsigned folded(unsigned sum) {
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

/* One datagram, with what is told of its headers. (Their order is the system's own.) */
static void receive(const char *what, int fd) {
    char text[100];
    unsigned char control[1024];
    struct iovec piece = {text, sizeof text};
    struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct pollfd p = {fd, POLLIN, 0};
    poll(&p, 1, 200);
    long count = recvmsg(fd, &m, MSG_DONTWAIT);
    if (count < 0) {
        say(what, count);
        return;
    }
    printf("%s: %ld", what, count);
    for (int level = 0; level < 64; level++)
        for (int type = 0; type < 64; type++)
            for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
                if (c->cmsg_level == level && c->cmsg_type == type) {
                    printf(" [%d %d ", level, type);
                    bytes(CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
                    printf("]");
                }
    printf("\n");
}

static void send_with(const char *what, int fd, struct sockaddr *to, socklen_t length, int level, int type, const void *data, size_t size) {
    unsigned char control[512] = {0};
    struct iovec piece = {"text", 4};
    struct msghdr m = {.msg_name = to, .msg_namelen = length, .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = level;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(c), data, size);
    say(what, sendmsg(fd, &m, 0));
}

static const unsigned char hop[8] = {0, 0, 1, 4, 0, 0, 0, 0}, destination[16] = {0, 1, 0x1e, 12}, route0[24] = {0, 2, 0, 1}, loud[8] = {0, 0, 0xde, 4, 0, 0, 0, 0};

static void ipv6_options(void) {
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    get("hop", fd, 41, HOP);
    get("route", fd, 41, RT);
    set(fd, 41, HOP, hop, 8);
    set(fd, 41, HOP, hop, 7);
    set(fd, 41, HOP, hop, 4);
    set(fd, 41, DST, destination, 8);
    set(fd, 41, DST, destination, 16);
    set(fd, 41, BEFORE, destination, 16);
    set(fd, 41, RT, route0, 24);
    set(fd, 41, RT, route0, 0);
    get("hop", fd, 41, HOP);
    get("destination", fd, 41, DST);
    get("before", fd, 41, BEFORE);
    set(fd, 41, HOP, hop, 0);
    get("hop", fd, 41, HOP);
    char long_one[2048] = {0};
    set(fd, 41, DST, long_one, 2048);
    int v4 = socket(AF_INET, SOCK_DGRAM, 0);
    set(v4, 41, HOP, hop, 8);
    get("of IPv4", v4, 41, HOP);
    close(v4);
    close(fd);
    fflush(stdout);
    if (!fork()) {
        if (setgid(1000) || setuid(1000))
            say("setuid", -1);
        fd = socket(AF_INET6, SOCK_DGRAM, 0);
        set(fd, 41, HOP, hop, 8);
        set(fd, 41, DST, destination, 16);
        set(fd, 41, DST, destination, 0);
        set(fd, 41, RT, route0, 0);
        struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(7777)};
        send_with("without a privilege", fd, (void *)&to, sizeof to, 41, HOP, hop, 8);
        fd = socket(AF_INET, SOCK_DGRAM, 0);
        set(fd, 0, IP_OPTIONS, "\x82\x04\0\0", 4);
        set(fd, 0, IP_OPTIONS, "\x94\x04\0\0", 4);
        exit(0);
    }
    wait(NULL);
}

static void ipv6_datagrams(void) {
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(7778)};
    int in = socket(AF_INET6, SOCK_DGRAM, 0), out = socket(AF_INET6, SOCK_DGRAM, 0);
    say("bind", bind(in, (void *)&to, sizeof to));
    setsockopt(out, 41, DST, destination, 16);
    send_with("untold", out, (void *)&to, sizeof to, 41, IPV6_HOPLIMIT, &(int){9}, 4);
    receive("untold", in);
    say("recv", on(in, 41, RECVHOP) | on(in, 41, RECVDST) | on(in, 41, RECVRT));
    say("sendto", sendto(out, "x", 1, 0, (void *)&to, sizeof to));
    receive("sticky", in);
    send_with("hop", out, (void *)&to, sizeof to, 41, HOP, hop, 8);
    receive("in its place", in);
    send_with("destination", out, (void *)&to, sizeof to, 41, DST, destination, 16);
    receive("destination", in);
    send_with("short", out, (void *)&to, sizeof to, 41, DST, destination, 8);
    send_with("nothing", out, (void *)&to, sizeof to, 41, HOP, "", 0);
    send_with("route", out, (void *)&to, sizeof to, 41, RT, route0, 24);
    setsockopt(out, 41, HOP, hop, 8);
    say("sendto", sendto(out, "xyz", 3, 0, (void *)&to, sizeof to));
    receive("both", in);
    on(out, 41, 25);
    setsockopt(out, 41, HOP, loud, 8);
    say("an option that nobody knows", sendto(out, "xyz", 3, 0, (void *)&to, sizeof to));
    receive("nothing", in);
    struct { struct { uint32_t number; uint8_t origin, type, code, pad; uint32_t info, data; } e; struct sockaddr_in6 who; } told = {0};
    unsigned char control[256];
    char text[100];
    struct iovec piece = {text, sizeof text};
    struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    long count = recvmsg(out, &m, MSG_ERRQUEUE);
    say("told", count);
    if (count >= 0) {
        memcpy(&told, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof told);
        printf("%u origin %u type %u code %u info %u\n", told.e.number, told.e.origin, told.e.type, told.e.code, told.e.info);
    }
    close(in);
    close(out);
}

/* A raw socket of the first header's kind makes a chain of any. */
static void chain(const char *what, int first, const unsigned char *headers, size_t count) {
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(7779)};
    int in = socket(AF_INET6, SOCK_DGRAM, 0), icmp = socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6), out = socket(AF_INET6, SOCK_RAW, first);
    bind(in, (void *)&at, sizeof at);
    on(in, 41, RECVHOP), on(in, 41, RECVDST), on(in, 41, RECVRT);
    unsigned char packet[256] = {0};
    memcpy(packet, headers, count);
    unsigned char *udp = packet + count;
    memcpy(udp, (unsigned char[]){0x1e, 0x60, 0x1e, 0x63, 0, 12, 0, 0, 't', 'e', 'x', 't'}, 12);
    unsigned check = folded(sum(udp, 12, 1 + 1 + 12 + 17));
    udp[6] = check >> 8, udp[7] = check;
    at.sin6_port = 0;
    long sent = sendto(out, packet, count + 12, 0, (void *)&at, sizeof at);
    if (sent != (long)count + 12)
        say("sendto", sent);
    receive(what, in);
    unsigned char answer[1500];
    long got = recv(icmp, answer, sizeof answer, MSG_DONTWAIT);
    if (got > 8)
        printf("    type %u code %u at %u, of %ld\n", answer[0], answer[1], answer[6] << 8 | answer[7], got);
    close(in), close(icmp), close(out);
}

static void ipv6_chains(void) {
#define CHAIN(first, ...) chain(#first ": " #__VA_ARGS__, first, (const unsigned char[]){__VA_ARGS__}, sizeof (unsigned char[]){__VA_ARGS__})
    CHAIN(60, 17, 0, 1, 4, 0, 0, 0, 0);
    CHAIN(60, 60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0);
    CHAIN(60, 43, 0, 1, 4, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0);
    CHAIN(43, 17, 0, 0, 1, 0, 0, 0, 0);
    CHAIN(43, 17, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1);
    CHAIN(43, 17, 0, 77, 1, 0, 0, 0, 0);
    CHAIN(43, 17, 0, 77, 0, 0, 0, 0, 0);
    CHAIN(60, 17, 0, 0x1e, 4, 0, 0, 0, 0);
    CHAIN(60, 17, 0, 0x5e, 4, 0, 0, 0, 0);
    CHAIN(60, 17, 0, 0x9e, 4, 0, 0, 0, 0);
    CHAIN(60, 17, 0, 0xde, 4, 0, 0, 0, 0);
    CHAIN(60, 17, 0, 1, 9, 0, 0, 0, 0);
    CHAIN(60, 17, 9, 1, 4, 0, 0, 0, 0);
    CHAIN(60, 0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0);
    CHAIN(60, 200, 0, 1, 4, 0, 0, 0, 0);
    CHAIN(60, 59, 0, 1, 4, 0, 0, 0, 0);
    CHAIN(60, 44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 0, 1, 2, 3, 4);
    CHAIN(44, 60, 0, 0, 0, 1, 2, 3, 4, 17, 0, 1, 4, 0, 0, 0, 0);
}

static const unsigned char record[11] = {7, 11, 4};

static void ipv4_options(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    get("options", fd, 0, IP_OPTIONS);
    set(fd, 0, IP_OPTIONS, record, 11);
    get("options", fd, 0, IP_OPTIONS);
    set(fd, 0, IP_OPTIONS, record, 0);
    get("options", fd, 0, IP_OPTIONS);
    char many[44];
    memset(many, 1, sizeof many);
    set(fd, 0, IP_OPTIONS, many, 40);
    set(fd, 0, IP_OPTIONS, many, 41);
    set(fd, 0, IP_OPTIONS, many, 44);
    static const char *const wrong[] = {
        "\x07\x02\x04\x00", "\x07\x07\x03\x00\x00\x00\x00\x00", "\x07\x07\x05\x00\x00\x00\x00\x00", "\x07\x09\x04\x00", "\x07\x01\x04\x00", "\x44\x03\x05\x00",
        "\x44\x08\x04\x00\x00\x00\x00\x00", "\x44\x08\x05\x01\x00\x00\x00\x00", "\x44\x08\x09\xf0\x00\x00\x00\x00", "\x94\x03\x00\x00",
    };
    static const int lengths[] = {4, 8, 8, 4, 4, 4, 8, 8, 8, 4};
    for (unsigned at = 0; at < sizeof wrong / sizeof *wrong; at++)
        set(fd, 0, IP_OPTIONS, wrong[at], lengths[at]);
    set(fd, 0, IP_OPTIONS, "\x01\x00\x09\x09", 4);
    get("options", fd, 0, IP_OPTIONS);
    set(fd, 0, IP_OPTIONS, "\x94\x04\0\0", 4);
    set(fd, 0, IP_OPTIONS, "\x82\x04\0\0", 4);
    close(fd);
    int stream = socket(AF_INET, SOCK_STREAM, 0);
    get("of a stream", stream, 0, IP_OPTIONS);
    set(stream, 0, IP_OPTIONS, record, 0);
    close(stream);
}

static void ipv4_datagrams(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = htons(7780)};
    int in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0);
    say("bind", bind(in, (void *)&to, sizeof to));
    setsockopt(out, 0, IP_OPTIONS, record, 11);
    say("sendto", sendto(out, "x", 1, 0, (void *)&to, sizeof to));
    receive("untold", in);
    say("recv", on(in, 0, IP_RECVOPTS));
    say("sendto", sendto(out, "x", 1, 0, (void *)&to, sizeof to));
    receive("record", in);
    send_with("cmsg", out, (void *)&to, sizeof to, 0, IP_RETOPTS, "\x94\x04\0\0", 4);
    receive("in its place", in);
    send_with("wrong", out, (void *)&to, sizeof to, 0, IP_RETOPTS, "\x07\x02\x04\0", 4);
    send_with("too many", out, (void *)&to, sizeof to, 0, IP_RETOPTS, "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1", 44);
    setsockopt(out, 0, IP_OPTIONS, record, 0);
    say("sendto", sendto(out, "x", 1, 0, (void *)&to, sizeof to));
    receive("none", in);
    /* An echo's answer says where the question has been. */
    int icmp = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    unsigned char echo[8] = {8, 0, 0xf7, 0xfa, 0, 5}, answer[200];
    unsigned char four[20] = {7, 19, 4};
    setsockopt(icmp, 0, IP_OPTIONS, four, 19);
    say("echo", sendto(icmp, echo, 8, 0, (void *)&to, sizeof to));
    for (int at = 0; at < 2; at++) {
        struct pollfd p = {icmp, POLLIN, 0};
        poll(&p, 1, 200);
        long count = recv(icmp, answer, sizeof answer, MSG_DONTWAIT);
        printf("echo: %ld ", count);
        if (count > 20)
            bytes(answer + 20, count - 20);
        printf("\n");
    }
    close(icmp), close(in), close(out);
}

static void own_headers(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = htons(7781)};
    int in = socket(AF_INET, SOCK_DGRAM, 0), raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW), see = socket(AF_INET, SOCK_RAW, 17);
    say("bind", bind(in, (void *)&to, sizeof to));
    get("of IPPROTO_RAW", raw, 0, IP_HDRINCL);
    get("of another", see, 0, IP_HDRINCL);
    set(in, 0, IP_HDRINCL, "\1\0\0\0", 4);
    on(in, 0, IP_RECVOPTS);
    unsigned char packet[64] = {0x45, 0, 9, 9, 0, 0, 0, 0, 33, 17, 7, 7, 0, 0, 0, 0, 127, 0, 0, 1, 0x1e, 0x65, 0x1e, 0x65, 0, 12, 0, 0, 't', 'e', 'x', 't'}, seen[100];
    say("sendto", sendto(raw, packet, 32, 0, (void *)&to, sizeof to));
    receive("source and length", in);
    long count = recv(see, seen, sizeof seen, MSG_DONTWAIT);
    printf("seen %ld: length %u, number %s, ttl %u, sum %s, from ", count, seen[2] << 8 | seen[3], seen[4] | seen[5] ? "made" : "0", seen[8], folded(sum(seen, 20, 0)) ? "wrong" : "right");
    bytes(seen + 12, 4);
    printf("\n");
    packet[4] = 0x12, packet[12] = 127, packet[15] = 99;
    say("sendto", sendto(raw, packet, 32, 0, (void *)&to, sizeof to));
    receive("given", in);
    count = recv(see, seen, sizeof seen, MSG_DONTWAIT);
    printf("seen %ld: number %02x%02x, from ", count, seen[4], seen[5]);
    bytes(seen + 12, 4);
    printf("\n");
    say("short", sendto(raw, packet, 19, 0, (void *)&to, sizeof to));
    packet[0] = 0x4f;
    say("shorter than it says", sendto(raw, packet, 32, 0, (void *)&to, sizeof to));
    packet[0] = 0x45;
    char *large = calloc(1, 70000);
    say("more than a packet", sendto(raw, large, 70000, 0, (void *)&to, sizeof to));
    setsockopt(raw, 0, IP_OPTIONS, record, 11);
    say("with options", sendto(raw, packet, 32, 0, (void *)&to, sizeof to));
    close(raw);
    raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
    /* Options that are wrong, and a source route. */
    int icmp = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    unsigned char with[40] = {0x47, 0, 0, 0, 0, 0, 0, 0, 33, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1, 1, 7, 7, 3, 0, 0, 0, 0, 0x1e, 0x65, 0x1e, 0x65, 0, 12, 0, 0, 't', 'e', 'x', 't'};
    say("wrong options", sendto(raw, with, 40, 0, (void *)&to, sizeof to));
    receive("nothing", in);
    count = recv(icmp, seen, sizeof seen, MSG_DONTWAIT);
    if (count > 28)
        printf("icmp %u %u at %u\n", seen[20], seen[21], seen[24]);
    else
        say("icmp", count);
    memcpy(with + 20, "\x83\x07\x08\x7f\0\0\1\0", 8);
    say("a source route", sendto(raw, with, 40, 0, (void *)&to, sizeof to));
    receive("nothing", in);
    say("icmp", recv(icmp, seen, sizeof seen, MSG_DONTWAIT));
    memcpy(with + 20, "\x99\x04\0\0\1\1\1\0", 8);
    say("an unknown option", sendto(raw, with, 40, 0, (void *)&to, sizeof to));
    receive("unknown", in);
    on(see, 0, IP_HDRINCL);
    say("any protocol", sendto(see, packet, 32, 0, (void *)&to, sizeof to));
    receive("any", in);
    close(icmp), close(see), close(raw), close(in);
}

int main(void) {
    ipv6_options();
    ipv6_datagrams();
    ipv6_chains();
    ipv4_options();
    ipv4_datagrams();
    own_headers();
    return 0;
}
