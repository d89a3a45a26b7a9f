/* When datagrams came: SO_TIMESTAMP, SO_TIMESTAMPNS and SO_TIMESTAMPING by their old and new numbers, SIOCGSTAMP and SIOCGSTAMPNS. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STAMP 0x8906
#define STAMPNS 0x8907
#define STAMP_NEW 0x80108906
#define STAMPNS_NEW 0x80108907

static void say(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
    fflush(stdout);
}

/* Is it the present time? */
static const char *fresh(const int64_t pair[2], int part) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t ago = (now.tv_sec - pair[0]) * 1000000000 + now.tv_nsec - pair[1] * part;
    return pair[0] == 0 && pair[1] == 0 ? "nothing" : ago >= 0 && ago < 2000000000 ? "now" : "wrong";
}

static void receive(const char *what, int fd, int flags, size_t room) {
    char text[100], control[256];
    struct iovec pieces[2] = {{text, 2}, {text + 2, sizeof text - 2}};
    struct msghdr m = {.msg_iov = pieces, .msg_iovlen = 2, .msg_control = control, .msg_controllen = room};
    struct pollfd p = {fd, POLLIN, 0};
    poll(&p, 1, 100);
    long count = recvmsg(fd, &m, flags | MSG_DONTWAIT);
    printf("%s: %ld \"%.*s\" flags %#x", what, count, count > 0 ? (int)count : 0, text, count < 0 ? 0 : m.msg_flags);
    for (struct cmsghdr *c = count < 0 ? 0 : CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        int64_t times[6] = {0};
        memcpy(times, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0) < sizeof times ? c->cmsg_len - CMSG_LEN(0) : sizeof times);
        printf(" [%d %d %zu", c->cmsg_level, c->cmsg_type, (size_t)c->cmsg_len);
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_len >= CMSG_LEN(16))
            printf(" %s", fresh(times, c->cmsg_type == 29 || c->cmsg_type == 63 ? 1000 : 1));
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_len >= CMSG_LEN(48))
            printf(" %s %s", fresh(times + 2, 1), fresh(times + 4, 1));
        printf("]");
    }
    printf("\n");
    fflush(stdout);
}

static void options(const char *what, int fd) {
    static const int numbers[] = {29, 35, 37, 63, 64, 65};
    printf("%s:", what);
    for (int i = 0; i < 6; i++) {
        int values[4] = {0};
        socklen_t size = sizeof values;
        if (getsockopt(fd, SOL_SOCKET, numbers[i], values, &size) < 0)
            printf(" %s", strerror(errno));
        else
            printf(" %d=%d(%u)", numbers[i], values[0], size);
    }
    printf("\n");
    fflush(stdout);
}

static void set(int fd, int number, int value) {
    printf("%d = %d: ", number, value);
    say("set", setsockopt(fd, SOL_SOCKET, number, &value, sizeof value));
    options("options", fd);
}

static void ask(const char *what, int fd, unsigned long request) {
    int64_t pair[2] = {0};
    int result = ioctl(fd, request, pair);
    printf("%s: %d %s %s\n", what, result, result < 0 ? strerror(errno) : "", result < 0 ? "" : fresh(pair, request & 1 ? 1 : 1000));
    fflush(stdout);
}

static void datagrams(int family) {
    struct sockaddr_in6 name = {.sin6_family = family};
    if (family == AF_INET)
        ((struct sockaddr_in *)&name)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        name.sin6_addr = in6addr_loopback;
    socklen_t size = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof name;
    int fd = socket(family, SOCK_DGRAM, 0), on = 1;
    say("bind", bind(fd, (void *)&name, size));
    getsockname(fd, (void *)&name, &size);
    options("at first", fd);
    ask("no packet", fd, STAMP);
#define SEND(text) sendto(fd, text, strlen(text), 0, (void *)&name, size)
    SEND("plain");
    receive("plain", fd, 0, 256);
    ask("SIOCGSTAMP", fd, STAMP), ask("SIOCGSTAMPNS", fd, STAMPNS), ask("new", fd, STAMP_NEW), ask("new", fd, STAMPNS_NEW);
    SEND("before");
    set(fd, 29, 1);
    receive("sent before", fd, 0, 256);
    SEND("stamped");
    receive("peek", fd, MSG_PEEK, 256);
    receive("no room", fd, MSG_PEEK, 0);
    receive("little room", fd, MSG_PEEK, 20);
    receive("truncated", fd, MSG_TRUNC, 256);
    say("nothing waits", recv(fd, &on, 1, MSG_DONTWAIT));
    receive("nothing waits", fd, 0, 256);
    SEND("read"), usleep(1000);
    char text[10];
    say("read", read(fd, text, sizeof text));
    setsockopt(fd, family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, family == AF_INET ? IP_PKTINFO : IPV6_RECVPKTINFO, &on, sizeof on);
    set(fd, 35, 1), SEND("ns"), receive("ns", fd, 0, 256);
    set(fd, 63, 1), SEND("new"), receive("new", fd, 0, 256);
    set(fd, 64, 1), SEND("new ns"), receive("new ns", fd, 0, 256);
    set(fd, 64, 0), SEND("off"), receive("off", fd, 0, 256);
    set(fd, 37, 1 << 3 | 1 << 4), SEND("stamping"), receive("stamping", fd, 0, 256);
    set(fd, 29, 1), SEND("both"), receive("both", fd, 0, 256);
    set(fd, 65, 1 << 3 | 1 << 4), SEND("both new"), receive("both new", fd, 0, 256);
    set(fd, 37, 1 << 30);
    set(fd, 37, 0), set(fd, 29, 0), SEND("off"), receive("off", fd, 0, 256);
    ask("SIOCGSTAMP", fd, STAMP);
    close(fd);
}

int main(void) {
    datagrams(AF_INET);
    datagrams(AF_INET6);
    /* A raw socket. */
    int raw = socket(AF_INET, SOCK_RAW, 253), on = 1;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(raw, SOL_SOCKET, 35, &on, sizeof on);
    say("raw", sendto(raw, "raw", 3, 0, (void *)&to, sizeof to));
    char text[40], control[100];
    struct iovec piece = {text, sizeof text};
    struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    say("raw", recvmsg(raw, &m, 0));
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    printf("%s\n", c && c->cmsg_type == 35 ? fresh((int64_t *)CMSG_DATA(c), 1) : "none");
    close(raw);
    /* Frames. */
    int packet = socket(AF_PACKET, SOCK_DGRAM, htons(0x800));
    setsockopt(packet, SOL_SOCKET, 29, &on, sizeof on);
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    to.sin_port = htons(9);
    sendto(udp, "frame", 5, 0, (void *)&to, sizeof to);
    m.msg_controllen = sizeof control;
    say("packet", recvmsg(packet, &m, 0));
    c = CMSG_FIRSTHDR(&m);
    printf("%s\n", c && c->cmsg_type == 29 ? fresh((int64_t *)CMSG_DATA(c), 1000) : "none");
    close(packet), close(udp);
    return 0;
}
