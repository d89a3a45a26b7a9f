/* Options of local sockets: SO_PEEK_OFF, time stamps, SO_LINGER, numbers and switches that are only remembered. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
static char bytes[100];

static int get(int fd, int option) {
    int value = -77;
    socklen_t length = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &length) == 0 ? value : 1000 + errno;
}

static int set(int fd, int option, int value) {
    return setsockopt(fd, SOL_SOCKET, option, &value, sizeof value) == 0 ? 0 : errno;
}

static void take(const char *what, int fd, size_t most, int flags) {
    ssize_t count = recv(fd, bytes, most, flags | MSG_DONTWAIT);
    printf("%s %zd '%.*s' next %d; ", what, count, count < 0 ? 0 : (int)count, bytes, get(fd, SO_PEEK_OFF));
}

static void peeks(const int *s) {
    printf("off %d", get(s[1], SO_PEEK_OFF));
    printf(" %d %d\n", set(s[1], SO_PEEK_OFF, 0), get(s[1], SO_PEEK_OFF));
    send(s[0], "abcdef", 6, 0);
    send(s[0], "ghij", 4, 0);
    for (int i = 0; i < 5; i++) {
        take("peek", s[1], 3, MSG_PEEK);
    }
    take("read", s[1], 2, 0);
    take("peek", s[1], 3, MSG_PEEK);
    printf("%d\n", set(s[1], SO_PEEK_OFF, 1));
    take("peek", s[1], 20, MSG_PEEK);
    send(s[0], "klm", 3, 0);
    take("peek", s[1], 20, MSG_PEEK);
    take("peek", s[1], 20, MSG_PEEK);
    ssize_t count = read(s[1], bytes, 3);
    printf("read(2) %zd next %d; ", count, get(s[1], SO_PEEK_OFF));
    printf("%d\n", set(s[1], SO_PEEK_OFF, -1));
    take("peek", s[1], 20, MSG_PEEK);
    while (recv(s[1], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
    puts("");
}

/* The control messages that a datagram comes with; whether a stamp is of this minute. */
static void receive(const char *what, int fd) {
    char control[200];
    struct iovec piece = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t count = recvmsg(fd, &message, MSG_DONTWAIT);
    printf("%s %zd:", what, count);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
        long stamp[2] = {0, 0};
        printf(" %d %d, %zu bytes", c->cmsg_level, c->cmsg_type, (size_t)c->cmsg_len);
        if (c->cmsg_type == SO_TIMESTAMP || c->cmsg_type == SO_TIMESTAMPNS) {
            memcpy(stamp, CMSG_DATA(c), sizeof stamp);
            long ago = time(NULL) - stamp[0], part = c->cmsg_type == SO_TIMESTAMP ? 1000000 : 1000000000;
            printf(" %s", ago >= 0 && ago < 60 && stamp[1] >= 0 && stamp[1] < part ? "now" : "wrong");
        }
    }
    puts("");
}

static void stamps(const int *s) {
    send(s[0], "before", 6, 0);
    printf("stamps %d", set(s[1], SO_TIMESTAMP, 1));
    printf(" %d %d\n", get(s[1], SO_TIMESTAMP), get(s[1], SO_TIMESTAMPNS));
    receive("sent before", s[1]);
    send(s[0], "x", 1, 0);
    receive("micro", s[1]);
    printf("ns %d", set(s[1], SO_TIMESTAMPNS, 1));
    printf(" %d %d\n", get(s[1], SO_TIMESTAMP), get(s[1], SO_TIMESTAMPNS));
    set(s[1], SO_PASSCRED, 1);
    send(s[0], "x", 1, 0);
    receive("nano", s[1]);
    set(s[1], SO_PASSCRED, 0);
    printf("none %d", set(s[1], SO_TIMESTAMPNS, 0));
    send(s[0], "x", 1, 0);
    receive(", none", s[1]);
}

static void lingers(int fd) {
    struct linger l = {1, 5};
    socklen_t length = sizeof l;
    printf("linger %d", setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l));
    memset(&l, 0, sizeof l);
    getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &length);
    printf(" %d %d;", l.l_onoff, l.l_linger);
    l.l_onoff = 0;
    l.l_linger = 9;
    printf(" %d", setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l));
    getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &length);
    printf(" %d %d\n", l.l_onoff, l.l_linger);
}

static void remembered(int fd) {
    static const int options[] = {SO_DEBUG, SO_DONTROUTE, SO_BROADCAST, SO_KEEPALIVE, SO_OOBINLINE, SO_NO_CHECK, SO_PRIORITY, SO_BSDCOMPAT, SO_RCVLOWAT,
                                  SO_PASSSEC, SO_MARK, SO_RXQ_OVFL, SO_WIFI_STATUS, SO_NOFCS, SO_LOCK_FILTER, SO_SELECT_ERR_QUEUE, SO_BUSY_POLL,
                                  SO_MAX_PACING_RATE, SO_INCOMING_CPU};
    static const int values[] = {3, -1, 0};
    for (unsigned i = 0; i < sizeof options / sizeof *options; i++) {
        printf(" %d: %d", options[i], get(fd, options[i]));
        for (unsigned j = 0; j < 3; j++) {
            int result = set(fd, options[i], values[j]);
            printf(" %d,%d", result, get(fd, options[i]));
        }
        printf(";");
    }
    printf("\nsizes:");
    for (unsigned j = 0; j < 3; j++) {
        set(fd, SO_SNDBUF, values[j]);
        printf(" %d", get(fd, SO_SNDBUF));
    }
    puts("");
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    for (unsigned i = 0; i < 3; i++) {
        int s[2];
        printf("kind %d\n", kinds[i]);
        if (socketpair(AF_UNIX, kinds[i], 0, s) != 0) {
            return 1;
        }
        peeks(s);
        stamps(s);
        lingers(s[0]);
        remembered(s[0]);
        close(s[0]);
        close(s[1]);
    }
    return 0;
}
