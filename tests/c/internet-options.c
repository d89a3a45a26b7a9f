/* Options of Internet sockets that are remembered, refused, or bound to kinds of sockets; TCP_WINDOW_CLAMP, TCP_INQ. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
    return 0;
}
