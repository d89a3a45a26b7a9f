/* UDP-Lite (RFC 3828): sums that cover the beginning of a datagram only, and otherwise what UDP does. */
#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LITE 136
#define SEND_COVERAGE 10
#define RECEIVE_COVERAGE 11
#define UDP_CORK 1
#define UDP_SEGMENT 103
#define SO_PEEK_OFF_ 42
#define SO_ZEROCOPY_ 60

static int result(long value) {
    return value < 0 ? -errno : value;
}

static int get(int fd, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    int done = result(getsockopt(fd, level, name, &value, &length));
    return done < 0 ? done : value;
}

static int set(int fd, int level, int name, int value) {
    return result(setsockopt(fd, level, name, &value, sizeof value));
}

/* A socket with a port of its own on the loopback address, and where that is. */
static int bound(int family, int protocol, struct sockaddr_storage *at) {
    socklen_t length = sizeof *at;
    memset(at, 0, sizeof *at);
    at->ss_family = family;
    if (family == AF_INET) {
        ((struct sockaddr_in *)at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        ((struct sockaddr_in6 *)at)->sin6_addr = in6addr_loopback;
    }
    int fd = socket(family, SOCK_DGRAM, protocol);
    if (fd < 0 || bind(fd, (struct sockaddr *)at, sizeof *at) != 0 || getsockname(fd, (struct sockaddr *)at, &length) != 0) {
        printf("no socket: %d\n", errno);
    }
    return fd;
}

static int size_of(int family) {
    return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* Bytes of what has come; -11: nothing. */
static int got(int fd) {
    char room[256];
    return result(recv(fd, room, sizeof room, MSG_DONTWAIT));
}

static void options(int protocol) {
    int fd = socket(AF_INET, SOCK_DGRAM, protocol), stream = socket(AF_INET, SOCK_STREAM, 0);
    printf("options of %d: type %d protocol %d\n", protocol, get(fd, SOL_SOCKET, SO_TYPE), get(fd, SOL_SOCKET, SO_PROTOCOL));
    static const int values[] = {-1, 1, 7, 8, 9, 20, 65535, 65536, 100000, 0};
    for (int level = 0; level < 2; level++) {
        for (int name = SEND_COVERAGE; name <= RECEIVE_COVERAGE; name++) {
            int at = level ? LITE : IPPROTO_UDP;
            printf("level %d option %d: %d", at, name, get(fd, at, name));
            for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
                printf(" %d:%d", set(fd, at, name, values[i]), get(fd, at, name));
            }
            printf("\n");
        }
        printf("cork %d", set(fd, level ? LITE : IPPROTO_UDP, UDP_CORK, 1));
        printf(" %d\n", get(fd, level ? LITE : IPPROTO_UDP, UDP_CORK));
    }
    printf("unknown %d %d\n", set(fd, LITE, 12, 1), get(fd, LITE, 12));
    printf("look %d zero copy %d\n", set(fd, SOL_SOCKET, SO_PEEK_OFF_, 0), set(fd, SOL_SOCKET, SO_ZEROCOPY_, 1));
    printf("of a stream %d %d\n", set(stream, LITE, SEND_COVERAGE, 8) < 0, get(stream, LITE, SEND_COVERAGE) < 0);
    close(fd), close(stream);
}

static void coverage(int family) {
    static const int all[] = {-1, 0, 8, 12, 19, 20, 21, 100};
    for (unsigned s = 0; s < sizeof all / sizeof *all; s++) {
        printf("%s covers %d:", family == AF_INET ? "IPv4" : "IPv6", all[s]);
        for (unsigned r = 0; r < sizeof all / sizeof *all; r++) {
            struct sockaddr_storage to, from;
            int receiver = bound(family, LITE, &to), sender = bound(family, LITE, &from);
            if (all[s] >= 0) {
                set(sender, LITE, SEND_COVERAGE, all[s]);
            }
            if (all[r] >= 0) {
                set(receiver, LITE, RECEIVE_COVERAGE, all[r]);
            }
            int sent = result(sendto(sender, "twelve bytes", 12, 0, (void *)&to, size_of(family)));
            printf(" %d", sent == 12 ? got(receiver) : sent);
            close(receiver), close(sender);
        }
        printf("\n");
    }
}

/* Lines of a table of /proc/net about a port: addresses, state, the owner. */
static void listed(const char *name, int port) {
    char path[64], line[512], local[80], remote[80];
    unsigned at, state, uid;
    snprintf(path, sizeof path, "/proc/net/%s", name);
    FILE *file = fopen(path, "r");
    printf("%s:%s", name, file ? "" : " none");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*u: %64[0-9A-F]:%x %79s %x %*s %*s %*s %u", local, &at, remote, &state, &uid) == 5 && (int)at == port) {
            printf(" %s to %s state %u uid %u", local, remote, state, uid);
        }
    }
    printf("\n");
    if (file) {
        fclose(file);
    }
}

/* Ports are not those of UDP, and connections are found among many. */
static void ports(int family) {
    struct sockaddr_storage to, from, same;
    int lite = bound(family, LITE, &to), udp = socket(family, SOCK_DGRAM, 0), other = socket(family, SOCK_DGRAM, LITE);
    same = to;
    printf("same port: udp %d, lite %d\n", result(bind(udp, (void *)&same, size_of(family))), result(bind(other, (void *)&same, size_of(family))));
    int number = ntohs(family == AF_INET ? ((struct sockaddr_in *)&to)->sin_port : ((struct sockaddr_in6 *)&to)->sin6_port);
    close(udp);
    listed(family == AF_INET ? "udplite" : "udplite6", number);
    listed(family == AF_INET ? "udp" : "udp6", number);
    udp = socket(family, SOCK_DGRAM, 0);
    bind(udp, (void *)&to, size_of(family));
    int from_udp = bound(family, IPPROTO_UDP, &from);
    sendto(from_udp, "udp", 3, 0, (void *)&to, size_of(family));
    printf("from udp: lite %d udp %d\n", got(lite), got(udp));
    int sender = bound(family, LITE, &from);
    sendto(sender, "lite!", 5, 0, (void *)&to, size_of(family));
    printf("from lite: udp %d lite %d\n", got(udp), got(lite));
    printf("connect %d %d", result(connect(lite, (void *)&from, size_of(family))), result(connect(sender, (void *)&to, size_of(family))));
    printf(" send %d", result(send(sender, "abc", 3, 0)));
    printf(" receive %d", got(lite));
    printf(" back %d", result(send(lite, "abcd", 4, 0)));
    printf(" receive %d\n", got(sender));
    sendto(from_udp, "udp", 3, 0, (void *)&from, size_of(family));
    int stranger = bound(family, LITE, &same);
    printf("stranger %d", result(sendto(stranger, "x", 1, 0, (void *)&to, size_of(family))));
    printf(" receive %d %d\n", got(lite), got(sender));
    close(lite);
    printf("nobody: %d", result(send(sender, "abc", 3, 0)));
    printf(" %d", result(send(sender, "abc", 3, 0)));
    printf(" receive %d\n", got(sender));
    close(sender), close(udp), close(from_udp), close(stranger), close(other);
}

static void pieces(void) {
    struct sockaddr_storage to, from;
    int receiver = bound(AF_INET, LITE, &to), sender = bound(AF_INET, LITE, &from);
    connect(sender, (void *)&to, size_of(AF_INET));
    printf("more %d", result(send(sender, "abc", 3, MSG_MORE)));
    printf(" %d", got(receiver));
    printf(" %d", result(send(sender, "defg", 4, 0)));
    printf(" %d\n", got(receiver));
    set(sender, LITE, SEND_COVERAGE, 10);
    printf("corked %d", set(sender, LITE, UDP_CORK, 1));
    printf(" %d", result(send(sender, "abc", 3, 0)));
    printf(" %d", result(send(sender, "de", 2, 0)));
    printf(" %d", got(receiver));
    printf(" %d", set(sender, LITE, UDP_CORK, 0));
    printf(" %d\n", got(receiver));
    static char large[70000];
    static const int sizes[] = {0, 1, 1472, 9000, 65507, 65508};
    int fd = socket(AF_INET, SOCK_DGRAM, LITE);
    set(fd, LITE, SEND_COVERAGE, 8);
    connect(fd, (void *)&to, size_of(AF_INET));
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int sent = result(send(fd, large, sizes[i], 0));
        printf("%d: %d %d\n", sizes[i], sent, result(recv(receiver, large, sizeof large, MSG_DONTWAIT)));
    }
    set(fd, LITE, SEND_COVERAGE, 0);
    printf("segments %d", set(fd, LITE, UDP_SEGMENT, 4));
    printf(" %d", result(send(fd, "abc", 3, 0)));
    printf(" %d", got(receiver));
    printf(" %d", result(send(fd, "abcdef", 6, 0)));
    printf(" %d\n", got(receiver));
    close(receiver), close(sender), close(fd);
}

static unsigned short sum(const unsigned char *bytes, int length, int covered) {
    unsigned sum = 2 * (0x7f00 + 1) + LITE + length;
    for (int at = 0; at < covered; at++) {
        sum += at & 1 ? bytes[at] : bytes[at] << 8;
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~(sum + (sum >> 16));
    return (sum & 0xffff) ? sum : 0xffff;
}

/* Datagrams made by hand, and what those that a socket makes look like. */
static void wire(void) {
    struct sockaddr_storage to, from;
    int receiver = bound(AF_INET, LITE, &to), sender = bound(AF_INET, LITE, &from);
    int raw = socket(AF_INET, SOCK_RAW, LITE), port = ntohs(((struct sockaddr_in *)&to)->sin_port);
    connect(sender, (void *)&to, size_of(AF_INET));
    static const int covers[] = {-1, 0, 8, 13, 20, 21};
    unsigned char room[256];
    for (unsigned i = 0; i < sizeof covers / sizeof *covers; i++) {
        if (covers[i] >= 0) {
            set(sender, LITE, SEND_COVERAGE, covers[i]);
        }
        send(sender, "twelve bytes", 12, 0);
        int length = recv(raw, room, sizeof room, MSG_DONTWAIT);
        int said = room[24] << 8 | room[25], its = room[26] << 8 | room[27];
        room[26] = room[27] = 0;
        printf("%d: %d bytes, says %d, sum %s; %d\n", covers[i], length, said,
               its == sum(room + 20, length - 20, said ? said : length - 20) ? "right" : "wrong", got(receiver));
    }
    static const struct { int says, covers, damage, sum; } all[] = {
        {0, 20, -1, -1}, {20, 20, -1, -1}, {8, 8, -1, -1}, {8, 8, 19, -1}, {8, 8, 8, -1}, {8, 8, 7, -1}, {12, 12, 12, -1},
        {12, 12, 11, -1}, {0, 20, 19, -1}, {7, 7, -1, -1}, {1, 1, -1, -1}, {21, 20, -1, -1}, {65535, 20, -1, -1}, {20, 20, -1, 0}, {8, 8, -1, 0},
        {13, 13, 13, -1}, {13, 13, 12, -1}, {20, 8, -1, -1},
    };
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        unsigned char bytes[20] = {9, 9, port >> 8, port, all[i].says >> 8, all[i].says, 0, 0};
        memcpy(bytes + 8, "twelve bytes", 12);
        int its = all[i].sum < 0 ? sum(bytes, sizeof bytes, all[i].covers) : all[i].sum;
        bytes[6] = its >> 8, bytes[7] = its;
        if (all[i].damage >= 0) {
            bytes[all[i].damage] ^= 0x10;
        }
        sendto(raw, bytes, sizeof bytes, 0, (void *)&to, size_of(AF_INET));
        printf("says %d covers %d damage %d sum %d: %d\n", all[i].says, all[i].covers, all[i].damage, all[i].sum, got(receiver));
    }
    for (int length = 0; length <= 8; length++) {
        unsigned char bytes[8] = {9, 9, port >> 8, port, 0, 0, 0, 0};
        int its = sum(bytes, length, length);
        bytes[6] = its >> 8, bytes[7] = its;
        sendto(raw, bytes, length, 0, (void *)&to, size_of(AF_INET));
        printf("%d bytes: %d\n", length, got(receiver));
    }
    close(raw), close(sender), close(receiver);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(60);
    for (int turn = 0; turn < 2; turn++) {
        pid_t child = fork();
        if (child == 0) {
            if (turn == 1 && (setgroups(0, NULL) != 0 || setgid(1000) != 0 || setuid(1000) != 0)) {
                printf("no other user\n");
            }
            options(LITE);
            options(IPPROTO_UDP);
            coverage(AF_INET);
            coverage(AF_INET6);
            ports(AF_INET);
            ports(AF_INET6);
            pieces();
            printf("stream %d, raw %d\n", result(socket(AF_INET, SOCK_STREAM, LITE)), turn ? result(socket(AF_INET, SOCK_RAW, LITE)) : 0);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    wire();
    return 0;
}
