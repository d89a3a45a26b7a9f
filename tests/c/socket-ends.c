/* shutdown(2) of each kind of socket and in each direction, with what poll, send and recv say on both ends; what is read after that; closes with unread bytes;
   SO_RCVLOWAT; receives of nothing; TCP_INFO of a listener; IPV6_HDRINCL; SIOCGIFCONF through local sockets. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#ifndef IPV6_HDRINCL
#define IPV6_HDRINCL 36
#endif

static const struct {
    const char *name;
    int family, type;
} kinds[] = {
    {"TCP", AF_INET, SOCK_STREAM},           {"TCP over IPv6", AF_INET6, SOCK_STREAM}, {"UDP", AF_INET, SOCK_DGRAM},
    {"UDP over IPv6", AF_INET6, SOCK_DGRAM}, {"local stream", AF_UNIX, SOCK_STREAM},   {"local datagrams", AF_UNIX, SOCK_DGRAM},
    {"local packets", AF_UNIX, SOCK_SEQPACKET},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static int bound(int family, int type, struct sockaddr_storage *at, socklen_t *length) {
    int fd = socket(family, type, 0);
    memset(at, 0, sizeof *at);
    at->ss_family = family;
    *length = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (family == AF_INET) {
        ((struct sockaddr_in *)at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        ((struct sockaddr_in6 *)at)->sin6_addr = in6addr_loopback;
    }
    bind(fd, (struct sockaddr *)at, *length);
    getsockname(fd, (struct sockaddr *)at, length);
    return fd;
}

static void pair(int kind, int ends[2]) {
    int family = kinds[kind].family, type = kinds[kind].type;
    struct sockaddr_storage at, other;
    socklen_t length;
    if (family == AF_UNIX) {
        socketpair(family, type, 0, ends);
        return;
    }
    ends[1] = bound(family, type, &at, &length);
    if (type == SOCK_DGRAM) {
        ends[0] = bound(family, type, &other, &length);
        connect(ends[1], (struct sockaddr *)&other, length);
        connect(ends[0], (struct sockaddr *)&at, length);
        return;
    }
    int listener = ends[1];
    listen(listener, 1);
    ends[0] = socket(family, type, 0);
    connect(ends[0], (struct sockaddr *)&at, length);
    ends[1] = accept(listener, NULL, NULL);
    close(listener);
}

static int ready(int fd) {
    struct pollfd one = {.fd = fd, .events = POLLIN | POLLOUT | POLLPRI | POLLRDHUP};
    poll(&one, 1, 0);
    return one.revents;
}

static int error_of(int fd) {
    int error = -1;
    socklen_t length = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    return error;
}

/* What is sent arrives at once here, and nearly so on Linux. */
static void arrive(void) { usleep(2000); }

static void receive(int fd) {
    char bytes[20];
    ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    printf(" recv %zd %d", got, got < 0 ? errno : 0);
}

static void transmit(int fd, const char *text) {
    ssize_t sent = send(fd, text, strlen(text), MSG_DONTWAIT);
    printf(" send %zd %d", sent, sent < 0 ? errno : 0);
    arrive();
}

static void shut(int kind, int side, int how) {
    int ends[2];
    pair(kind, ends);
    printf("%s, end %d, how %d:", kinds[kind].name, side, how);
    send(ends[0], "abc", 3, 0);
    send(ends[1], "def", 3, 0);
    arrive();
    printf(" %d", shutdown(ends[side], how));
    arrive();
    printf(" %d", shutdown(ends[side], how));
    for (int i = 0; i < 2; i++) {
        printf(" | poll %x", ready(ends[i]));
        receive(ends[i]);
        receive(ends[i]);
        arrive();
        printf(" poll %x", ready(ends[i]));
        transmit(ends[i], "q");
        printf(" poll %x", ready(ends[i]));
        printf(" error %d", error_of(ends[i]));
    }
    for (int i = 0; i < 2; i++) {
        struct sockaddr_storage at;
        socklen_t length = sizeof at;
        printf(" |");
        receive(ends[i]);
        printf(" poll %x", ready(ends[i]));
        printf(" peer %d", getpeername(ends[i], (struct sockaddr *)&at, &length));
    }
    close(ends[0]);
    arrive();
    printf(" | closed");
    receive(ends[1]);
    printf(" poll %x", ready(ends[1]));
    transmit(ends[1], "a");
    puts("");
    close(ends[1]);
}

/* One end closes: 1 without waiting, 2 with bytes that the other did not read, 4 with some that it did not read itself. */
static void closed(int kind, int how) {
    struct linger now = {1, 0};
    int ends[2];
    pair(kind, ends);
    printf("%s, closed %d:", kinds[kind].name, how);
    if (how & 1) {
        setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    if (how & 4) {
        send(ends[0], "abc", 3, 0);
    }
    if (how & 2) {
        send(ends[1], "unread", 6, 0);
    }
    arrive();
    close(ends[1]);
    arrive();
    printf(" poll %x", ready(ends[0]));
    receive(ends[0]);
    printf(" poll %x", ready(ends[0]));
    printf(" error %d", error_of(ends[0]));
    receive(ends[0]);
    transmit(ends[0], "a");
    transmit(ends[0], "a");
    printf(" poll %x", ready(ends[0]));
    receive(ends[0]);
    printf(" error %d\n", error_of(ends[0]));
    close(ends[0]);
}

static void little(int kind) {
    int ends[2], low = 5;
    char bytes[20];
    struct timeval time = {0, 20000};
    pair(kind, ends);
    setsockopt(ends[1], SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
    setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    send(ends[0], "abc", 3, 0);
    arrive();
    printf("%s, little: poll %x", kinds[kind].name, ready(ends[1]));
    printf(" look %zd", recv(ends[1], bytes, sizeof bytes, MSG_PEEK));
    printf(" recv %zd", recv(ends[1], bytes, sizeof bytes, 0));
    send(ends[0], "defgh", 5, 0);
    arrive();
    printf(" poll %x", ready(ends[1]));
    printf(" recv %zd\n", recv(ends[1], bytes, sizeof bytes, 0));
    close(ends[0]);
    close(ends[1]);
}

static void nothing(int kind) {
    int ends[2];
    char bytes[10];
    socklen_t length = (socklen_t)-1;
    struct msghdr message = {.msg_controllen = 100};
    pair(kind, ends);
    printf("%s, nothing: %zd", kinds[kind].name, recv(ends[1], bytes, 0, MSG_DONTWAIT));
    printf(" %zd", read(ends[1], bytes, 0));
    send(ends[0], "abc", 3, 0);
    arrive();
    printf(" %zd", recv(ends[1], bytes, 0, MSG_DONTWAIT));
    send(ends[0], "de", 2, 0);
    arrive();
    ssize_t got = recvfrom(ends[1], bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&message, &length);
    printf(" %zd %d", got, got < 0 ? errno : 0);
    printf(" %zd %d\n", sendmsg(ends[0], &message, 0), errno);
    close(ends[0]);
    close(ends[1]);
}

static void listener(void) {
    struct sockaddr_storage at;
    socklen_t length;
    int fd = bound(AF_INET, SOCK_STREAM, &at, &length), others[2];
    listen(fd, 3);
    for (int i = 0; i < 2; i++) {
        others[i] = socket(AF_INET, SOCK_STREAM, 0);
        connect(others[i], (struct sockaddr *)&at, length);
    }
    arrive();
    struct tcp_info info;
    socklen_t size = sizeof info;
    memset(&info, 0, sizeof info);
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size);
    printf("listener: state %d, %d of %d wait\n", info.tcpi_state, info.tcpi_unacked, info.tcpi_sacked);
    close(others[0]);
    close(others[1]);
    close(fd);
}

/* A datagram of UDP with a header of IPv6 that the program wrote. */
static void header(int protocol, int port, int length) {
    struct sockaddr_storage at;
    socklen_t size;
    int there = bound(AF_INET6, SOCK_DGRAM, &at, &size), one = 1, value = -1;
    int fd = socket(AF_INET6, SOCK_RAW, protocol);
    struct sockaddr_in6 to = *(struct sockaddr_in6 *)&at;
    socklen_t four = sizeof value;
    getsockopt(fd, IPPROTO_IPV6, IPV6_HDRINCL, &value, &four);
    printf("header %d: %d", protocol, value);
    printf(" %d", setsockopt(fd, IPPROTO_IPV6, IPV6_HDRINCL, &one, sizeof one));
    printf(" %d", setsockopt(there, IPPROTO_IPV6, IPV6_HDRINCL, &one, sizeof one));
    setsockopt(there, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &one, sizeof one);
    unsigned char packet[53] = {0x60, 0, 0, 0, 0, 13, IPPROTO_UDP, 44};
    packet[23] = packet[39] = 1;
    packet[40] = 0x30;
    packet[41] = 0x39;
    memcpy(packet + 42, &to.sin6_port, 2);
    packet[45] = 13;
    memcpy(packet + 48, "hello", 5);
    unsigned sum = 13 + IPPROTO_UDP + (packet[52] << 8);
    for (int i = 8; i < 52; i += 2) {
        sum += packet[i] << 8 | packet[i + 1];
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16));
    packet[46] = sum >> 8 & 0xff;
    packet[47] = sum & 0xff;
    to.sin6_port = htons(port);
    ssize_t sent = sendto(fd, packet, length, 0, (struct sockaddr *)&to, sizeof to);
    printf(" sent %zd %d", sent, sent < 0 ? errno : 0);
    arrive();
    struct sockaddr_in6 from;
    char bytes[10], control[100];
    struct iovec piece = {bytes, sizeof bytes};
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = 100};
    ssize_t got = recvmsg(there, &message, MSG_DONTWAIT);
    printf(" got %zd", got);
    for (struct cmsghdr *c = got < 0 ? NULL : CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
        memcpy(&value, CMSG_DATA(c), sizeof value);
        printf(" from port %d, %d: %d", ntohs(from.sin6_port), c->cmsg_type, value);
    }
    puts("");
    close(fd);
    close(there);
}

static void interfaces(int kind) {
    int ends[2];
    char names[400];
    struct ifconf all = {.ifc_len = 0};
    struct ifreq one = {.ifr_name = "lo"};
    pair(kind, ends);
    printf("%s, interfaces: %d", kinds[kind].name, ioctl(ends[0], SIOCGIFCONF, &all));
    printf(" %d bytes", all.ifc_len);
    all = (struct ifconf){.ifc_len = sizeof names, .ifc_buf = names};
    printf(" %d", ioctl(ends[0], SIOCGIFCONF, &all));
    printf(" %d bytes", all.ifc_len);
    printf(" index %d", ioctl(ends[0], SIOCGIFINDEX, &one));
    printf(" address %d\n", ioctl(ends[0], SIOCGIFADDR, &one));
    close(ends[0]);
    close(ends[1]);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    for (int kind = 0; kind < KINDS; kind++) {
        for (int way = 0; way < 6; way++) {
            shut(kind, way / 3, way % 3);
        }
        for (int how = 0; how < 8; how++) {
            closed(kind, how);
        }
        nothing(kind);
        interfaces(kind);
    }
    little(0);
    little(1);
    listener();
    header(IPPROTO_UDP, 0, 53);
    header(IPPROTO_RAW, 0, 53);
    header(IPPROTO_RAW, 9, 53);
    header(IPPROTO_UDP, 0, 30);
    return 0;
}
