/* Which options of a listening socket the accepted connection has: of those that were set before the peer came, and of those set between that and accept(2). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* As in <linux/filter.h>, which musl does not bring. */
struct sock_filter {
    unsigned short code;
    unsigned char jt, jf;
    unsigned k;
};
struct sock_fprog {
    unsigned short len;
    struct sock_filter *filter;
};
enum { BPF_LD = 0, BPF_W = 0, BPF_LEN = 0x80, BPF_K = 0, BPF_JMP = 5, BPF_JGT = 0x20, BPF_RET = 6 };

struct option {
    const char *name;
    int level, number, value;
};

#define O(level, name, value) {#name, level, name, value}
static const struct option options[] = {
    O(SOL_SOCKET, SO_DEBUG, 1),
    O(SOL_SOCKET, SO_REUSEADDR, 1),
    O(SOL_SOCKET, SO_REUSEPORT, 1),
    O(SOL_SOCKET, SO_KEEPALIVE, 1),
    O(SOL_SOCKET, SO_BROADCAST, 1),
    O(SOL_SOCKET, SO_DONTROUTE, 1),
    O(SOL_SOCKET, SO_OOBINLINE, 1),
    O(SOL_SOCKET, SO_SNDBUF, 20000),
    O(SOL_SOCKET, SO_RCVBUF, 30000),
    O(SOL_SOCKET, SO_RCVLOWAT, 5),
    O(SOL_SOCKET, SO_PRIORITY, 4),
    O(SOL_SOCKET, SO_MARK, 7),
    O(SOL_SOCKET, SO_NO_CHECK, 1),
    O(SOL_SOCKET, SO_TIMESTAMP, 1),
    O(SOL_SOCKET, SO_RXQ_OVFL, 1),
    O(SOL_SOCKET, SO_BUSY_POLL, 11),
    O(SOL_SOCKET, SO_MAX_PACING_RATE, 1000000),
    O(SOL_SOCKET, SO_ZEROCOPY, 1),
    O(SOL_SOCKET, SO_LOCK_FILTER, 1),
    O(IPPROTO_IP, IP_TOS, 0x10),
    O(IPPROTO_IP, IP_TTL, 33),
    O(IPPROTO_IP, IP_MINTTL, 5),
    O(IPPROTO_IP, IP_RECVERR, 1),
    O(IPPROTO_IP, IP_PKTINFO, 1),
    O(IPPROTO_IP, IP_RECVTTL, 1),
    O(IPPROTO_IP, IP_RECVTOS, 1),
    O(IPPROTO_IP, IP_FREEBIND, 1),
    O(IPPROTO_IP, IP_TRANSPARENT, 1),
    O(IPPROTO_IP, IP_MTU_DISCOVER, 2),
    O(IPPROTO_IP, IP_MULTICAST_TTL, 9),
    O(IPPROTO_IP, IP_MULTICAST_LOOP, 0),
    O(IPPROTO_IP, IP_MULTICAST_ALL, 0),
    O(IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1),
    O(IPPROTO_TCP, TCP_NODELAY, 1),
    O(IPPROTO_TCP, TCP_CORK, 1),
    O(IPPROTO_TCP, TCP_KEEPIDLE, 100),
    O(IPPROTO_TCP, TCP_KEEPINTVL, 30),
    O(IPPROTO_TCP, TCP_KEEPCNT, 3),
    O(IPPROTO_TCP, TCP_SYNCNT, 3),
    O(IPPROTO_TCP, TCP_LINGER2, 20),
    O(IPPROTO_TCP, TCP_USER_TIMEOUT, 5000),
    O(IPPROTO_TCP, TCP_NOTSENT_LOWAT, 4096),
    O(IPPROTO_TCP, TCP_INQ, 1),
    O(IPPROTO_TCP, TCP_WINDOW_CLAMP, 20000),
    O(IPPROTO_IPV6, IPV6_UNICAST_HOPS, 22),
    O(IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 21),
    O(IPPROTO_IPV6, IPV6_TCLASS, 0x20),
    O(IPPROTO_IPV6, IPV6_RECVPKTINFO, 1),
    O(IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1),
    O(IPPROTO_IPV6, IPV6_RECVTCLASS, 1),
    O(IPPROTO_IPV6, IPV6_RECVERR, 1),
};
#define COUNT ((int)(sizeof options / sizeof *options))

static int get(int fd, const struct option *of) {
    int value = -1;
    socklen_t length = sizeof value;
    if (getsockopt(fd, of->level, of->number, &value, &length)) {
        return -errno;
    }
    return length == 1 ? *(unsigned char *)&value : value;
}

union name {
    struct sockaddr plain;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static int listening(int family, union name *at, socklen_t *length) {
    int fd = socket(family, SOCK_STREAM, 0);
    memset(at, 0, sizeof *at);
    at->plain.sa_family = family;
    if (family == AF_INET) {
        at->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        at->v6.sin6_addr = in6addr_loopback;
    }
    *length = sizeof *at;
    bind(fd, &at->plain, family == AF_INET ? sizeof at->v4 : sizeof at->v6);
    getsockname(fd, &at->plain, length);
    return fd;
}

/* One option: `late` is set after the peer came. */
static void row(int family, const struct option *of, int late) {
    union name at;
    socklen_t length;
    int l = listening(family, &at, &length), fresh = socket(family, SOCK_STREAM, 0), set = 0;
    int peer = socket(family, SOCK_STREAM, 0);
    if (!late) {
        set = setsockopt(l, of->level, of->number, &of->value, sizeof of->value) ? errno : 0;
    }
    listen(l, 4);
    connect(peer, &at.plain, length);
    if (late) {
        set = setsockopt(l, of->level, of->number, &of->value, sizeof of->value) ? errno : 0;
    }
    int s = accept(l, NULL, NULL);
    printf("%s %s %s: set %d", family == AF_INET ? "v4" : "v6", of->name, late ? "late" : "early", set);
    if (late && (of->number == SO_SNDBUF && of->level == SOL_SOCKET || of->number == TCP_WINDOW_CLAMP && of->level == IPPROTO_TCP)) {
        /* (These grow by themselves.) */
        printf("\n");
        close(s);
        close(peer);
        close(fresh);
        close(l);
        return;
    }
    int was = get(fresh, of), is = get(l, of), has = get(s, of);
    const char *what = has == is ? "has it" : has == was ? "has it not" : "else";
    printf(", %s\n", was == is ? "no change" : what);
    close(s);
    close(peer);
    close(fresh);
    close(l);
}

static void structures(int late) {
    union name at;
    socklen_t length;
    int l = listening(AF_INET, &at, &length), peer = socket(AF_INET, SOCK_STREAM, 0);
    struct linger linger = {1, 7};
    struct timeval receive = {3, 0}, sends = {4, 0};
    if (late) {
        listen(l, 4);
        connect(peer, &at.plain, length);
    }
    setsockopt(l, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &receive, sizeof receive);
    setsockopt(l, SOL_SOCKET, SO_SNDTIMEO, &sends, sizeof sends);
    setsockopt(l, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2);
    setsockopt(l, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    fcntl(l, F_SETOWN, getpid());
    fcntl(l, F_SETFL, O_NONBLOCK);
    fcntl(l, F_SETFD, FD_CLOEXEC);
    if (!late) {
        listen(l, 4);
        connect(peer, &at.plain, length);
    }
    int s = accept(l, NULL, NULL);
    printf("structures %s\n", late ? "late" : "early");
    socklen_t room = sizeof linger;
    memset(&linger, 0, sizeof linger);
    getsockopt(s, SOL_SOCKET, SO_LINGER, &linger, &room);
    printf("  linger %d %d\n", linger.l_onoff, linger.l_linger);
    room = sizeof receive;
    getsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &receive, &room);
    room = sizeof sends;
    getsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &sends, &room);
    printf("  times %ld %ld\n", (long)receive.tv_sec, (long)sends.tv_sec);
    char text[32] = "";
    room = sizeof text;
    getsockopt(s, SOL_SOCKET, SO_BINDTODEVICE, text, &room);
    printf("  device %s\n", text);
    memset(text, 0, sizeof text);
    room = sizeof text;
    getsockopt(s, IPPROTO_TCP, TCP_CONGESTION, text, &room);
    printf("  congestion %s\n", text);
    printf("  owner %d, flags %x, %x\n", fcntl(s, F_GETOWN) == getpid(), fcntl(s, F_GETFL), fcntl(s, F_GETFD));
    close(s);
    close(peer);
    close(l);
}

/* Instructions that take everything, or (of a segment with text) nothing. */
static void attach(int fd, int count) {
    static struct sock_filter code[4096];
    for (int at = 0; at < count; at++) {
        code[at] = (struct sock_filter){BPF_RET | BPF_K, 0, 0, 0xffffff};
    }
    struct sock_fprog program = {count, code};
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program)) {
        printf("  attach %d: %s\n", count, strerror(errno));
    }
}

static int filter(int fd) {
    struct sock_filter code[64];
    socklen_t count = 64;
    return getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, code, &count) ? -errno : (int)count;
}

static void filters(void) {
    for (int how = 0; how < 5; how++) {
        union name at;
        socklen_t length;
        int l = listening(AF_INET, &at, &length), peer = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
        attach(l, 3);
        if (how == 4) {
            setsockopt(l, SOL_SOCKET, SO_LOCK_FILTER, &yes, sizeof yes);
        }
        listen(l, 4);
        if (how == 1) {
            setsockopt(l, SOL_SOCKET, SO_DETACH_FILTER, &yes, sizeof yes);
        }
        connect(peer, &at.plain, length);
        if (how == 2) {
            setsockopt(l, SOL_SOCKET, SO_DETACH_FILTER, &yes, sizeof yes);
        }
        if (how == 3) {
            attach(l, 5);
        }
        int s = accept(l, NULL, NULL);
        printf("filter %d: listener %d, connection %d, peer %d\n", how, filter(l), filter(s), filter(peer));
        /* And one that comes after all that. */
        int next = socket(AF_INET, SOCK_STREAM, 0);
        connect(next, &at.plain, length);
        int second = accept(l, NULL, NULL);
        printf("  the next connection %d\n", filter(second));
        close(next);
        close(second);
        if (how == 0 || how == 4) {
            int done = setsockopt(s, SOL_SOCKET, SO_DETACH_FILTER, &yes, sizeof yes) ? errno : 0;
            printf("  detached %d: listener %d, connection %d\n", done, filter(l), filter(s));
        }
        if (how == 3) {
            close(l);
            printf("  the listener is gone: connection %d\n", filter(s));
        }
        close(s);
        close(peer);
        close(l);
    }
}

/* A filter of 200 instructions that lets no text through: the text comes once the connection's own has gone. */
static void works(void) {
    union name at;
    socklen_t length;
    int l = listening(AF_INET, &at, &length), peer = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sock_filter code[] = {
        {BPF_LD | BPF_W | BPF_LEN, 0, 0, 0},
        {BPF_JMP | BPF_JGT | BPF_K, 0, 1, 60},
        {BPF_RET | BPF_K, 0, 0, 0},
        {BPF_RET | BPF_K, 0, 0, 0xffffff},
    };
    struct sock_fprog program = {4, code};
    setsockopt(l, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
    listen(l, 4);
    connect(peer, &at.plain, length);
    int s = accept(l, NULL, NULL);
    char text[100] = "";
    printf("sent %ld\n", (long)send(peer, text, sizeof text, 0));
    usleep(50000);
    long got = recv(s, text, sizeof text, MSG_DONTWAIT);
    printf("with the filter: %ld %s\n", got, got < 0 ? strerror(errno) : "");
    setsockopt(s, SOL_SOCKET, SO_DETACH_FILTER, &yes, sizeof yes);
    struct timeval patience = {20, 0};
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    printf("without: %ld\n", (long)recv(s, text, sizeof text, 0));
    close(s);
    close(peer);
    close(l);
}

/* A large filter of a listener, and many connections: each of them pays, or none. */
static void many(void) {
    static int fds[400];
    union name at;
    socklen_t length;
    int l = listening(AF_INET, &at, &length), with = 0;
    attach(l, 300);
    listen(l, 256);
    for (int each = 0; each < 400; each += 2) {
        fds[each] = socket(AF_INET, SOCK_STREAM, 0);
        connect(fds[each], &at.plain, length);
        fds[each + 1] = accept(l, NULL, NULL);
        struct sock_filter none[1];
        socklen_t count = 0;
        with += getsockopt(fds[each + 1], SOL_SOCKET, SO_GET_FILTER, none, &count) == 0 && count == 300;
    }
    printf("%d connections have the filter\n", with);
    for (int each = 0; each < 400; each++) {
        close(fds[each]);
    }
    close(l);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int each = 0; each < COUNT; each++) {
        if (options[each].level != IPPROTO_IPV6) {
            row(AF_INET, &options[each], 0);
            row(AF_INET, &options[each], 1);
        }
    }
    for (int each = 0; each < COUNT; each++) {
        if (options[each].level == IPPROTO_IPV6) {
            row(AF_INET6, &options[each], 0);
            row(AF_INET6, &options[each], 1);
        }
    }
    structures(0);
    structures(1);
    filters();
    works();
    many();
    return 0;
}
