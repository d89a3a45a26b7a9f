/* Options of Internet sockets that are remembered, refused, or bound to kinds of sockets; TCP_WINDOW_CLAMP, TCP_INQ, SIOCOUTQNSD,
   IP_MINTTL, IPV6_MINHOPCOUNT. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SIOCOUTQ
#define SIOCOUTQ TIOCOUTQ
#endif
#ifndef SIOCOUTQNSD
#define SIOCOUTQNSD 0x894b
#endif
#ifndef IPV6_MINHOPCOUNT
#define IPV6_MINHOPCOUNT 73
#endif

static int get(int fd, int level, int option) {
    int value = 0;
    socklen_t length = sizeof value;
    return getsockopt(fd, level, option, &value, &length) == 0 ? value : 100000 + errno;
}

static int set(int fd, int level, int option, int value) {
    return setsockopt(fd, level, option, &value, sizeof value) == 0 ? 0 : errno;
}

static void sweep(const char *what, int fd, int level, const int *options, int count) {
    /* (What a window is at first, and may be at most, depends on the machine's memory.) */
    static const int values[] = {1, 0, 255, -1};
    printf("%s level %d:", what, level);
    for (int i = 0; i < count; i++) {
        printf(" %d: %d", options[i], level == IPPROTO_TCP && options[i] == TCP_WINDOW_CLAMP ? 0 : get(fd, level, options[i]));
        for (int j = 0; j < 4; j++) {
            int result = set(fd, level, options[i], values[j]);
            printf(" %d,%d", result, get(fd, level, options[i]));
        }
        printf(";");
    }
    puts("");
}

/* How many bytes more there are, as a control message of each receive. */
static void unread(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    bind(listener, (struct sockaddr *)&at, sizeof at);
    getsockname(listener, (struct sockaddr *)&at, &length);
    listen(listener, 1);
    if (connect(one, (struct sockaddr *)&at, sizeof at) != 0) {
        puts("no connection");
        return;
    }
    int other = accept(listener, NULL, NULL);
    printf("clamp of a connection: %d\n", set(one, IPPROTO_TCP, TCP_WINDOW_CLAMP, 0));
    printf("TCP_INQ %d %d\n", set(other, IPPROTO_TCP, TCP_INQ, 1), get(other, IPPROTO_TCP, TCP_INQ));
    send(one, "0123456789", 10, 0);
    close(one);
    for (int i = 0; i < 4; i++) {
        char bytes[4], control[100];
        struct iovec piece = {bytes, sizeof bytes};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        printf("received %zd", recvmsg(other, &message, 0));
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
            int left;
            memcpy(&left, CMSG_DATA(c), sizeof left);
            /* (How soon the end comes is nobody's business.) */
            printf(", %d %d: %s", c->cmsg_level, c->cmsg_type, left == 6 || left == 7 ? "six" : left == 2 || left == 3 ? "two" : left <= 1 ? "no more" : "wrong");
        }
        puts("");
    }
    close(other);
    close(listener);
}

static int connected(int family, int ends[2]) {
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr *at = family == AF_INET ? (struct sockaddr *)&four : (struct sockaddr *)&own;
    socklen_t length = family == AF_INET ? sizeof four : sizeof own;
    int listener = socket(family, SOCK_STREAM, 0);
    bind(listener, at, length);
    getsockname(listener, at, &length);
    listen(listener, 1);
    ends[0] = socket(family, SOCK_STREAM, 0);
    if (connect(ends[0], at, length) != 0) {
        return -1;
    }
    ends[1] = accept(listener, NULL, NULL);
    return listener;
}

/* What was not sent, of what was not acknowledged. */
static void unsent(void) {
    int ends[2], left = -1, queued = -1, datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    int listener = connected(AF_INET, ends);
    static char bytes[65536];
    printf("SIOCOUTQNSD %d", ioctl(ends[0], SIOCOUTQNSD, &left));
    printf(" %d;", left);
    while (send(ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
    usleep(200000);
    ioctl(ends[0], SIOCOUTQNSD, &left);
    ioctl(ends[0], SIOCOUTQ, &queued);
    printf(" some %d, no more than all %d;", left > 0, left <= queued);
    printf(" listening %d", ioctl(listener, SIOCOUTQNSD, &left) == 0 ? 0 : errno);
    printf(" of UDP %d\n", ioctl(datagrams, SIOCOUTQNSD, &left) == 0 ? 0 : errno);
    close(ends[0]), close(ends[1]), close(listener), close(datagrams);
}

/* Only near peers are listened to (RFC 5082). */
static void near(int family, int level, int least, int hops) {
    int ends[2], listener = connected(family, ends);
    struct pollfd wait = {.fd = ends[1], .events = POLLIN};
    printf("least %d: at first %d", least, get(ends[1], level, least));
    static const int values[] = {-1, 256, 0, 255, 65};
    for (int i = 0; i < 5; i++) {
        int result = set(ends[1], level, least, values[i]);
        printf(" %d,%d", result, get(ends[1], level, least));
    }
    send(ends[0], "x", 1, 0);
    printf("; from afar %d", poll(&wait, 1, 300));
    set(ends[0], level, hops, 65);
    printf("; from near %d\n", poll(&wait, 1, 5000));
    close(ends[0]), close(ends[1]), close(listener);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    static const int of_socket[] = {SO_REUSEADDR, SO_BSDCOMPAT, SO_PASSSEC, SO_WIFI_STATUS, SO_NOFCS, SO_SELECT_ERR_QUEUE, SO_BUSY_POLL,
                                    SO_MAX_PACING_RATE, SO_INCOMING_CPU, SO_BPF_EXTENSIONS};
    static const int of_ip[] = {IP_HDRINCL, IP_MULTICAST_TTL};
    static const int of_ipv6[] = {IPV6_V6ONLY, IPV6_MULTICAST_HOPS};
    static const int of_tcp[] = {TCP_WINDOW_CLAMP, TCP_NOTSENT_LOWAT, TCP_INQ};
    static const struct {
        const char *name;
        int family, kind, protocol;
    } kinds[] = {{"tcp", AF_INET, SOCK_STREAM, 0},          {"udp", AF_INET, SOCK_DGRAM, 0},          {"raw", AF_INET, SOCK_RAW, IPPROTO_TCP},
                 {"tcp of IPv6", AF_INET6, SOCK_STREAM, 0}, {"udp of IPv6", AF_INET6, SOCK_DGRAM, 0}, {"raw of IPv6", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6}};
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int fd = socket(kinds[i].family, kinds[i].kind, kinds[i].protocol);
        sweep(kinds[i].name, fd, SOL_SOCKET, of_socket, sizeof of_socket / sizeof *of_socket);
        sweep(kinds[i].name, fd, IPPROTO_IP, of_ip, 2);
        if (kinds[i].family == AF_INET6) {
            sweep(kinds[i].name, fd, IPPROTO_IPV6, of_ipv6, 2);
        }
        if (kinds[i].kind == SOCK_STREAM) {
            sweep(kinds[i].name, fd, IPPROTO_TCP, of_tcp, 3);
            printf("peek offset %d\n", set(fd, SOL_SOCKET, SO_PEEK_OFF, 0));
        }
        printf("low water %d %d", set(fd, SOL_SOCKET, SO_RCVLOWAT, 0), get(fd, SOL_SOCKET, SO_RCVLOWAT));
        printf(" %d %d", set(fd, SOL_SOCKET, SO_RCVLOWAT, 255), get(fd, SOL_SOCKET, SO_RCVLOWAT));
        printf(" %d %d\n", set(fd, SOL_SOCKET, SO_RCVLOWAT, -1), get(fd, SOL_SOCKET, SO_RCVLOWAT) > 1000000);
        printf("forced sizes %d %d\n", get(fd, SOL_SOCKET, SO_SNDBUFFORCE), get(fd, SOL_SOCKET, SO_RCVBUFFORCE));
        close(fd);
    }
    unread();
    unsent();
    near(AF_INET, IPPROTO_IP, IP_MINTTL, IP_TTL);
    near(AF_INET6, IPPROTO_IPV6, IPV6_MINHOPCOUNT, IPV6_UNICAST_HOPS);
    return 0;
}
