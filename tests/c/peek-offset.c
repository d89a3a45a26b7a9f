/* SO_PEEK_OFF of datagrams: each look with MSG_PEEK goes on where the last one ended. UDP_SEGMENT as a control message. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PEEK_OFF
#define SO_PEEK_OFF 42
#endif

static void say(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
    fflush(stdout);
}

static void offset(int fd) {
    int value = -7;
    socklen_t length = sizeof value;
    int result = getsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &value, &length);
    if (result < 0)
        say("offset", result);
    else
        printf("    offset %d\n", value);
}

static void set(int fd, int value) {
    printf("set %d ", value);
    say("SO_PEEK_OFF", setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &value, sizeof value));
}

static void take(int fd, size_t room, int flags) {
    char text[64] = {0};
    struct iovec piece = {text, room};
    struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1};
    long count = recvmsg(fd, &m, flags | MSG_DONTWAIT);
    if (count < 0)
        say("recv", count);
    else
        printf("%s%zu: %ld \"%.*s\" flags %#x\n", flags & MSG_PEEK ? "peek " : "take ", room, count, (int)(count < (long)room ? count : (long)room), text, m.msg_flags);
    offset(fd);
}

static void segments(int out, struct sockaddr_in *to, int in, int type, const void *data, size_t size) {
    unsigned char control[64] = {0};
    struct iovec piece[2] = {{"abcde", 5}, {"fghij", 5}};
    struct msghdr m = {.msg_name = to, .msg_namelen = sizeof *to, .msg_iov = piece, .msg_iovlen = 2, .msg_control = control, .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = IPPROTO_UDP, c->cmsg_type = type, c->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(c), data, size);
    say("sendmsg", sendmsg(out, &m, 0));
    for (int at = 0; at < 8; at++) {
        char text[64];
        long count = recv(in, text, sizeof text, MSG_DONTWAIT);
        if (count < 0)
            break;
        printf("    %.*s\n", (int)count, text);
    }
}

int main(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof to;
    int in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0);
    bind(in, (void *)&to, sizeof to);
    getsockname(in, (void *)&to, &length);
    connect(out, (void *)&to, sizeof to);
    offset(in);
    send(out, "first", 5, 0), send(out, "second", 6, 0), send(out, "third", 5, 0);
    take(in, 3, MSG_PEEK);
    set(in, 0);
    take(in, 3, MSG_PEEK);
    take(in, 10, MSG_PEEK);
    take(in, 2, MSG_PEEK | MSG_TRUNC);
    take(in, 4, MSG_PEEK);
    take(in, 64, MSG_PEEK);
    take(in, 64, MSG_PEEK);
    take(in, 64, 0);
    take(in, 2, 0);
    send(out, "fourth", 6, 0);
    take(in, 64, MSG_PEEK);
    set(in, 2);
    take(in, 1, MSG_PEEK);
    take(in, 64, MSG_PEEK);
    set(in, -1);
    take(in, 64, MSG_PEEK);
    take(in, 64, 0);
    take(in, 64, 0);
    set(in, 0);
    char small[4] = {0};
    send(out, "abcdef", 6, 0);
    say("recv", recv(in, small, 4, MSG_PEEK));
    printf("%.4s\n", small);
    say("recv", recv(in, small, 4, MSG_PEEK));
    printf("%.4s\n", small);
    say("read", read(in, small, 4));
    offset(in);
    int raw = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    set(raw, 0);
    offset(raw);
    unsigned short four = 4, much = 60000;
    segments(out, &to, in, 103, &four, 2);
    segments(out, &to, in, 103, "\4\0\0\0", 4);
    segments(out, &to, in, 104, &four, 2);
    segments(out, &to, in, 103, &much, 2);
    int value = 3;
    setsockopt(out, IPPROTO_UDP, 103, &value, sizeof value);
    segments(out, &to, in, 103, &four, 2);
    return 0;
}
