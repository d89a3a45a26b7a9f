/* Sends without a copy (MSG_ZEROCOPY, SO_ZEROCOPY): whoever asks for them is told by the queue of errors that the memory is his again, and whether the bytes were
   copied after all. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif
#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif

static void say(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
    fflush(stdout);
}

static void set(const char *what, int fd, int value) {
    printf("%s ", what);
    say("SO_ZEROCOPY", setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &value, sizeof value));
}

static void ready(const char *what, int fd, int wait) {
    struct pollfd p = {fd, 0, 0};
    poll(&p, 1, wait);
    printf("%s: %#x\n", what, p.revents);
}

static void told(const char *what, int fd) {
    struct { uint32_t number; uint8_t origin, type, code, pad; uint32_t info, data; } e = {0};
    unsigned char control[128], text[8];
    struct sockaddr_storage name;
    struct iovec piece = {text, sizeof text};
    struct msghdr m = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    long count = recvmsg(fd, &m, MSG_ERRQUEUE);
    if (count < 0) {
        say(what, count);
        return;
    }
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    memcpy(&e, CMSG_DATA(c), sizeof e);
    printf("%s: %ld flags %#x name %u [%d %d %u] errno %u origin %u type %u code %u from %u to %u\n", what, count, m.msg_flags, m.msg_namelen, c->cmsg_level, c->cmsg_type,
           (unsigned)c->cmsg_len, e.number, e.origin, e.type, e.code, e.info, e.data);
}

static char text[20000];

static void streams(int family) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr *at = family == AF_INET ? (void *)&v4 : (void *)&v6;
    socklen_t length = family == AF_INET ? sizeof v4 : sizeof v6;
    int listener = socket(family, SOCK_STREAM, 0), out = socket(family, SOCK_STREAM, 0);
    bind(listener, at, length);
    listen(listener, 1);
    getsockname(listener, at, &length);
    say("connect", connect(out, at, length));
    int in = accept(listener, NULL, NULL);
    say("without the option", send(out, text, 5000, MSG_ZEROCOPY));
    say("read", recv(in, text, 5000, MSG_WAITALL));
    ready("nothing", out, 0);
    told("nothing", out);
    set("stream", out, 1);
    set("stream", out, 2);
    say("plain", send(out, text, 100, 0));
    ready("nothing", out, 0);
    say("send", send(out, text, 10000, MSG_ZEROCOPY));
    say("read", recv(in, text, 10100, MSG_WAITALL));
    ready("one", out, 1000);
    told("one", out);
    told("no more", out);
    ready("no more", out, 0);
    for (int at = 0; at < 3; at++)
        send(out, text, 3000, MSG_ZEROCOPY);
    say("nothing", send(out, text, 0, MSG_ZEROCOPY));
    say("read", recv(in, text, 9000, MSG_WAITALL));
    usleep(100000);
    int epoll = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {0}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, out, &event);
    say("epoll", epoll_wait(epoll, &event, 1, 1000));
    printf("%#x\n", event.events);
    close(epoll);
    int error = -1;
    socklen_t size = sizeof error;
    getsockopt(out, SOL_SOCKET, SO_ERROR, &error, &size);
    printf("SO_ERROR %d\n", error);
    told("three", out);
    told("no more", out);
    struct iovec pieces[2] = {{text, 10}, {text + 100, 20}};
    struct msghdr m = {.msg_iov = pieces, .msg_iovlen = 2};
    say("sendmsg", sendmsg(out, &m, MSG_ZEROCOPY));
    say("read", recv(in, text, 30, MSG_WAITALL));
    ready("one", out, 1000);
    char small[4];
    struct msghdr without = {.msg_iov = &(struct iovec){small, 4}, .msg_iovlen = 1, .msg_control = small, .msg_controllen = 0};
    say("without room", recvmsg(out, &without, MSG_ERRQUEUE));
    printf("flags %#x\n", without.msg_flags);
    set("stream", out, 0);
    say("send", send(out, text, 1000, MSG_ZEROCOPY));
    say("read", recv(in, text, 1000, MSG_WAITALL));
    ready("nothing", out, 0);
    close(in), close(out), close(listener);
}

static void datagrams(int family) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr *at = family == AF_INET ? (void *)&v4 : (void *)&v6;
    socklen_t length = family == AF_INET ? sizeof v4 : sizeof v6;
    int in = socket(family, SOCK_DGRAM, 0), out = socket(family, SOCK_DGRAM, 0);
    bind(in, at, length);
    getsockname(in, at, &length);
    set("datagram", out, 1);
    say("sendto", sendto(out, text, 6000, MSG_ZEROCOPY, at, length));
    say("read", recv(in, text, sizeof text, 0));
    ready("one", out, 1000);
    told("one", out);
    say("connect", connect(out, at, length));
    say("send", send(out, text, 6000, MSG_ZEROCOPY));
    say("send", send(out, text, 6000, MSG_ZEROCOPY));
    say("read", recv(in, text, sizeof text, 0));
    say("read", recv(in, text, sizeof text, 0));
    ready("two", out, 1000);
    told("two", out);
    told("no more", out);
    close(in), close(out);
}

int main(void) {
    streams(AF_INET);
    streams(AF_INET6);
    datagrams(AF_INET);
    datagrams(AF_INET6);
    set("raw", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP), 1);
    set("local", socket(AF_UNIX, SOCK_STREAM, 0), 1);
    return 0;
}
