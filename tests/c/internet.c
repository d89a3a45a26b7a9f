/* Internet sockets over the loopback interface: streams and datagrams of both families, names, what waits and what does not, options, errors, readiness, descriptors that travel. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
    fflush(stdout);
}

static char buffer[200000];

static void got(const char *what, int fd, int flags) {
    long count = recv(fd, buffer, sizeof buffer, flags);
    if (count < 0)
        say(what, count);
    else
        printf("%s: %ld %.*s\n", what, count, count > 60 ? 60 : (int)count, buffer);
    fflush(stdout);
}

static void ready(const char *what, int fd) {
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP | POLLPRI, 0};
    poll(&p, 1, 0);
    printf("%s: %#x\n", what, p.revents);
}

/* Until something of this is ready, at most two seconds. */
static void until(int fd, short events) {
    struct pollfd p = {fd, events, 0};
    poll(&p, 1, 2000);
}

union name {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t at(union name *n, int family, const char *text, int port) {
    memset(n, 0, sizeof *n);
    n->any.sa_family = family;
    if (family == AF_INET) {
        inet_pton(family, text, &n->v4.sin_addr);
        n->v4.sin_port = htons(port);
        return sizeof n->v4;
    }
    inet_pton(family, text, &n->v6.sin6_addr);
    n->v6.sin6_port = htons(port);
    return sizeof n->v6;
}

static int port_of(int fd) {
    union name n;
    socklen_t length = sizeof n;
    getsockname(fd, &n.any, &length);
    return ntohs(n.any.sa_family == AF_INET ? n.v4.sin_port : n.v6.sin6_port);
}

/* The address alone: ports differ. */
static void show(const char *what, union name *n, socklen_t length) {
    char text[64] = "?";
    if (n->any.sa_family == AF_INET)
        inet_ntop(AF_INET, &n->v4.sin_addr, text, sizeof text);
    else if (n->any.sa_family == AF_INET6)
        inet_ntop(AF_INET6, &n->v6.sin6_addr, text, sizeof text);
    printf("%s: family %d, %s, length %d\n", what, n->any.sa_family, text, (int)length);
}

static int bound(int family, int kind, const char *text) {
    int fd = socket(family, kind, 0);
    union name n;
    socklen_t length = at(&n, family, text, 0);
    if (fd < 0 || bind(fd, &n.any, length) != 0)
        say("bind", -1);
    return fd;
}

/* A listener and the two ends of a connection to it. */
static void connection(int family, const char *text, int *listener, int *client, int *server) {
    *listener = bound(family, SOCK_STREAM, text);
    say("listen", listen(*listener, 5));
    *client = socket(family, SOCK_STREAM, 0);
    union name n;
    socklen_t length = at(&n, family, text, port_of(*listener));
    say("connect", connect(*client, &n.any, length));
    length = sizeof n;
    *server = accept4(*listener, &n.any, &length, SOCK_CLOEXEC);
    show("accepted", &n, length);
}

static void streams(int family, const char *text) {
    int l, c, s;
    union name n;
    socklen_t length = sizeof n;
    connection(family, text, &l, &c, &s);
    say("close-on-exec", fcntl(s, F_GETFD));
    getpeername(c, &n.any, &length);
    show("peer", &n, length);
    length = sizeof n;
    getsockname(c, &n.any, &length);
    show("own", &n, length);
    ready("ready at first", s);
    say("send", send(c, "hello", 5, 0));
    got("peek", s, MSG_PEEK);
    int count = -1;
    say("FIONREAD", ioctl(s, FIONREAD, &count));
    say("there", count);
    ready("ready to read", s);
    got("received", s, 0);
    got("nothing", s, MSG_DONTWAIT);
    struct iovec pieces[2] = {{"ab", 2}, {"cdef", 4}};
    say("writev", writev(s, pieces, 2));
    say("wait for all", recv(c, buffer, 6, MSG_WAITALL));
    say("shutdown", shutdown(c, SHUT_WR));
    until(s, POLLRDHUP);
    ready("after the end", s);
    got("the end", s, 0);
    say("write back", write(s, "still", 5));
    got("read back", c, 0);
    say("after shutdown", send(c, "x", 1, MSG_NOSIGNAL));
    close(s);
    until(c, POLLHUP);
    ready("both closed", c);
    close(c);
    close(l);
}

static void large(void) {
    int l, c, s;
    connection(AF_INET, "127.0.0.1", &l, &c, &s);
    enum { TOTAL = 3000000 };
    if (fork() == 0) {
        uint32_t seed = 1;
        for (long done = 0; done < TOTAL;) {
            long some = sizeof buffer < TOTAL - done ? sizeof buffer : TOTAL - done;
            for (long i = 0; i < some; i++) {
                seed = seed * 1103515245 + 12345;
                buffer[i] = seed >> 16;
            }
            for (long sent = 0; sent < some;) {
                long more = write(c, buffer + sent, some - sent);
                if (more <= 0)
                    _exit(1);
                sent += more;
            }
            done += some;
        }
        _exit(0);
    }
    close(c);
    uint32_t seed = 1;
    long total = 0, wrong = 0, some;
    while ((some = read(s, buffer, 77777)) > 0) {
        for (long i = 0; i < some; i++) {
            seed = seed * 1103515245 + 12345;
            wrong += buffer[i] != (char)(seed >> 16);
        }
        total += some;
    }
    say("read in all", total);
    say("wrong bytes", wrong);
    int status = -1;
    wait(&status);
    say("writer", status);
    close(s);
    close(l);
}

static void refused(void) {
    union name n;
    int l = bound(AF_INET, SOCK_STREAM, "127.0.0.1");
    socklen_t length = at(&n, AF_INET, "127.0.0.1", port_of(l));
    int c = socket(AF_INET, SOCK_STREAM, 0);
    say("nobody listens", connect(c, &n.any, length));
    say("again", connect(c, &n.any, length));
    fcntl(c, F_SETFL, O_NONBLOCK);
    say("without waiting", connect(c, &n.any, length));
    until(c, POLLOUT);
    ready("refused", c);
    int error = -1;
    socklen_t size = sizeof error;
    getsockopt(c, SOL_SOCKET, SO_ERROR, &error, &size);
    say("SO_ERROR", error);
    getsockopt(c, SOL_SOCKET, SO_ERROR, &error, &size);
    say("SO_ERROR again", error);
    say("listen", listen(l, 1));
    say("without waiting", connect(c, &n.any, length));
    until(c, POLLOUT);
    ready("connected", c);
    say("connect again", connect(c, &n.any, length));
    say("and again", connect(c, &n.any, length));
    int s = accept(l, NULL, NULL);
    say("accepted", s >= 0);
    fcntl(l, F_SETFL, O_NONBLOCK);
    say("nobody more", accept(l, NULL, NULL));
    close(s);
    close(c);
    int u = socket(AF_INET, SOCK_STREAM, 0);
    got("not connected", u, 0);
    say("send", send(u, "x", 1, MSG_NOSIGNAL));
    ready("not connected", u);
    say("peer", getpeername(u, &n.any, &length));
    say("shutdown", shutdown(u, SHUT_WR));
    say("accept", accept(u, NULL, NULL));
    close(u);
    close(l);
}

static void resets(void) {
    int l, c, s;
    connection(AF_INET, "127.0.0.1", &l, &c, &s);
    say("unread", send(c, "unread", 6, 0));
    until(s, POLLIN);
    close(s);
    until(c, POLLIN);
    ready("reset", c);
    got("reset", c, 0);
    got("then", c, 0);
    say("write", send(c, "x", 1, MSG_NOSIGNAL));
    signal(SIGPIPE, SIG_IGN);
    say("ignored", write(c, "x", 1));
    signal(SIGPIPE, SIG_DFL);
    if (fork() == 0) {
        write(c, "x", 1);
        _exit(0);
    }
    int status;
    wait(&status);
    say("ended by", WTERMSIG(status));
    close(c);
    union name n;
    socklen_t length = at(&n, AF_INET, "127.0.0.1", port_of(l));
    c = socket(AF_INET, SOCK_STREAM, 0);
    connect(c, &n.any, length);
    s = accept(l, NULL, NULL);
    struct linger linger = {1, 0};
    say("linger", setsockopt(c, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    close(c);
    until(s, POLLIN);
    got("aborted", s, 0);
    close(s);
    close(l);
}

static void datagrams(int family, const char *text) {
    int a = bound(family, SOCK_DGRAM, text), b = socket(family, SOCK_DGRAM, 0);
    union name n, own;
    socklen_t length = at(&n, family, text, port_of(a));
    ready("at first", b);
    say("sendto", sendto(b, "one", 3, 0, &n.any, length));
    say("empty", sendto(b, "", 0, 0, &n.any, length));
    say("long", sendto(b, buffer, 60000, 0, &n.any, length));
    say("too long", sendto(b, buffer, 65536, 0, &n.any, length));
    say("nobody", send(b, "x", 1, 0));
    ready("to read", a);
    length = sizeof own;
    say("recvfrom", recvfrom(a, buffer, 2, MSG_TRUNC, &own.any, &length));
    show("from", &own, length);
    say("the empty one", recv(a, buffer, 10, 0));
    int count = -1;
    ioctl(a, FIONREAD, &count);
    say("FIONREAD", count);
    struct iovec piece = {buffer, 100};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_name = &own, .msg_namelen = sizeof own};
    say("recvmsg", recvmsg(a, &message, 0));
    printf("flags %#x, name %d\n", message.msg_flags, (int)message.msg_namelen);
    got("nothing", a, MSG_DONTWAIT);
    say("connect", connect(a, &own.any, length));
    say("answer", send(a, "two", 3, 0));
    got("answer", b, 0);
    int c = socket(family, SOCK_DGRAM, 0);
    sendto(c, "stranger", 8, 0, &n.any, length);
    got("of a stranger", a, MSG_DONTWAIT);
    say("nobody's port", connect(c, &n.any, length));
    close(a);
    say("send", send(c, "x", 1, 0));
    until(c, POLLIN);
    ready("unreachable", c);
    got("unreachable", c, 0);
    say("send", send(c, "x", 1, 0));
    until(c, POLLERR);
    say("send", send(c, "x", 1, 0));
    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    say("disconnect", connect(c, &nobody, sizeof nobody));
    say("peer", getpeername(c, &own.any, &length));
    say("shutdown", shutdown(c, SHUT_RDWR));
    ready("shut", c);
    got("shut", c, 0);
    close(b);
    close(c);
}

static void many(void) {
    int a = bound(AF_INET, SOCK_DGRAM, "127.0.0.1"), b = socket(AF_INET, SOCK_DGRAM, 0);
    union name n;
    socklen_t length = at(&n, AF_INET, "127.0.0.1", port_of(a));
    connect(b, &n.any, length);
    struct iovec pieces[3] = {{"a", 1}, {"bb", 2}, {"ccc", 3}};
    struct mmsghdr out[3], in[4];
    char room[4][8];
    struct iovec rooms[4];
    memset(out, 0, sizeof out);
    memset(in, 0, sizeof in);
    for (int i = 0; i < 4; i++) {
        if (i < 3) {
            out[i].msg_hdr.msg_iov = &pieces[i];
            out[i].msg_hdr.msg_iovlen = 1;
        }
        rooms[i] = (struct iovec){room[i], 8};
        in[i].msg_hdr.msg_iov = &rooms[i];
        in[i].msg_hdr.msg_iovlen = 1;
    }
    say("sendmmsg", sendmmsg(b, out, 3, 0));
    say("recvmmsg", recvmmsg(a, in, 4, MSG_WAITFORONE, NULL));
    for (int i = 0; i < 3; i++)
        printf("%u %.*s\n", in[i].msg_len, (int)in[i].msg_len, room[i]);
    struct timeval little = {0, 20000};
    say("SO_RCVTIMEO", setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &little, sizeof little));
    got("in time", a, 0);
    close(a);
    close(b);
}

static void names(void) {
    union name n;
    int a = bound(AF_INET, SOCK_STREAM, "127.0.0.1"), port = port_of(a);
    socklen_t length = at(&n, AF_INET, "127.0.0.1", port);
    say("twice", bind(a, &n.any, length));
    int b = socket(AF_INET, SOCK_STREAM, 0);
    say("taken", bind(b, &n.any, length));
    length = at(&n, AF_INET, "0.0.0.0", port);
    say("any", bind(b, &n.any, length));
    length = at(&n, AF_INET, "192.0.2.1", port);
    say("not ours", bind(b, &n.any, length));
    length = at(&n, AF_INET, "127.0.0.2", port);
    say("another one", bind(b, &n.any, length));
    close(b);
    b = socket(AF_INET, SOCK_STREAM, 0);
    length = at(&n, AF_INET6, "::1", port);
    say("other family", bind(b, &n.any, length));
    say("short", bind(b, &n.any, 8));
    int one = 1;
    setsockopt(a, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(b, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    length = at(&n, AF_INET, "127.0.0.1", port);
    say("reuse", bind(b, &n.any, length));
    say("listen", listen(a, 1));
    say("listen too", listen(b, 1));
    close(a);
    close(b);
    a = socket(AF_INET, SOCK_DGRAM, 0);
    b = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(a, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    setsockopt(b, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    length = at(&n, AF_INET, "127.0.0.1", 0);
    bind(a, &n.any, length);
    length = at(&n, AF_INET, "127.0.0.1", port_of(a));
    say("share", bind(b, &n.any, length));
    close(a);
    close(b);
    if (fork() == 0) {
        setuid(1000);
        a = socket(AF_INET, SOCK_STREAM, 0);
        length = at(&n, AF_INET, "127.0.0.1", 80);
        say("privileged", bind(a, &n.any, length));
        say("raw", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
        _exit(0);
    }
    wait(NULL);
    say("route", (a = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    say("kinds", socket(AF_INET, SOCK_SEQPACKET, 0));
    say("protocol", socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
    say("family", socket(123, SOCK_STREAM, 0));
    say("pair", socketpair(AF_INET, SOCK_STREAM, 0, (int[2]){0, 0}));
    close(a);
}

static void both_families(void) {
    int l = bound(AF_INET6, SOCK_STREAM, "::"), one = 1, c = socket(AF_INET, SOCK_STREAM, 0);
    listen(l, 4);
    union name n;
    socklen_t length = at(&n, AF_INET, "127.0.0.1", port_of(l));
    say("from IPv4", connect(c, &n.any, length));
    length = sizeof n;
    int s = accept(l, &n.any, &length);
    show("accepted", &n, length);
    say("send", send(s, "dual", 4, 0));
    got("dual", c, 0);
    close(s);
    close(c);
    int only = socket(AF_INET6, SOCK_STREAM, 0);
    say("V6ONLY", setsockopt(only, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one));
    length = at(&n, AF_INET6, "::", 0);
    bind(only, &n.any, length);
    listen(only, 1);
    c = socket(AF_INET, SOCK_STREAM, 0);
    length = at(&n, AF_INET, "127.0.0.1", port_of(only));
    say("not for IPv4", connect(c, &n.any, length));
    int v4 = socket(AF_INET, SOCK_STREAM, 0);
    say("beside it", bind(v4, &n.any, length));
    close(v4);
    close(c);
    close(only);
    close(l);
}

static void option(const char *what, int fd, int level, int number, int value) {
    int back = -1;
    socklen_t length = sizeof back;
    long set = setsockopt(fd, level, number, &value, sizeof value);
    int error = errno;
    long get = getsockopt(fd, level, number, &back, &length);
    printf("%s: %ld %s, %ld %d\n", what, set, set < 0 ? strerror(error) : "", get, back);
}

static void options(void) {
    int t = socket(AF_INET, SOCK_STREAM, 0), u = socket(AF_INET, SOCK_DGRAM, 0), v = socket(AF_INET6, SOCK_STREAM, 0);
    option("REUSEADDR", t, SOL_SOCKET, SO_REUSEADDR, 7);
    option("REUSEPORT", t, SOL_SOCKET, SO_REUSEPORT, 1);
    option("KEEPALIVE", t, SOL_SOCKET, SO_KEEPALIVE, 1);
    option("BROADCAST", u, SOL_SOCKET, SO_BROADCAST, 1);
    option("OOBINLINE", t, SOL_SOCKET, SO_OOBINLINE, 1);
    option("SNDBUF", t, SOL_SOCKET, SO_SNDBUF, 10000);
    option("RCVBUF", u, SOL_SOCKET, SO_RCVBUF, 1);
    option("RCVLOWAT", t, SOL_SOCKET, SO_RCVLOWAT, 0);
    option("TYPE", t, SOL_SOCKET, SO_TYPE, 1);
    option("DOMAIN", v, SOL_SOCKET, SO_DOMAIN, 1);
    option("PROTOCOL", u, SOL_SOCKET, SO_PROTOCOL, 1);
    option("ACCEPTCONN", t, SOL_SOCKET, SO_ACCEPTCONN, 1);
    option("unknown", t, SOL_SOCKET, 1234, 1);
    option("NODELAY", t, IPPROTO_TCP, TCP_NODELAY, 1);
    option("CORK", t, IPPROTO_TCP, TCP_CORK, 1);
    option("KEEPIDLE", t, IPPROTO_TCP, TCP_KEEPIDLE, 60);
    option("KEEPIDLE 0", t, IPPROTO_TCP, TCP_KEEPIDLE, 0);
    option("KEEPINTVL", t, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    option("KEEPCNT", t, IPPROTO_TCP, TCP_KEEPCNT, 200);
    option("SYNCNT", t, IPPROTO_TCP, TCP_SYNCNT, 3);
    option("DEFER_ACCEPT", t, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5);
    option("USER_TIMEOUT", t, IPPROTO_TCP, TCP_USER_TIMEOUT, 1234);
    option("LINGER2", t, IPPROTO_TCP, TCP_LINGER2, 30);
    option("MAXSEG", t, IPPROTO_TCP, TCP_MAXSEG, 1000);
    option("of UDP", u, IPPROTO_TCP, TCP_NODELAY, 1);
    option("TTL", t, IPPROTO_IP, IP_TTL, 33);
    option("TTL 0", t, IPPROTO_IP, IP_TTL, 0);
    option("TOS", u, IPPROTO_IP, IP_TOS, 16);
    option("PKTINFO", u, IPPROTO_IP, IP_PKTINFO, 1);
    option("RECVTTL", u, IPPROTO_IP, IP_RECVTTL, 1);
    option("V6ONLY", v, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    option("HOPS", v, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 9);
    option("TCLASS", v, IPPROTO_IPV6, IPV6_TCLASS, 9);
    /* Of a connection: who sees a length here thinks that its packets have come by a way of their sender's choice. */
    unsigned char given[40] = {0};
    socklen_t some = sizeof given;
    say("IP_OPTIONS", getsockopt(t, IPPROTO_IP, IP_OPTIONS, given, &some));
    printf("so many bytes: %u\n", some);
    say("none of them", setsockopt(t, IPPROTO_IP, IP_OPTIONS, given, 0));
    char name[16] = "";
    say("CONGESTION", setsockopt(t, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
    say("unknown", setsockopt(t, IPPROTO_TCP, TCP_CONGESTION, "none such", 9));
    socklen_t length = sizeof name;
    say("CONGESTION", getsockopt(t, IPPROTO_TCP, TCP_CONGESTION, name, &length));
    printf("%s %d\n", name, (int)length);
    struct timeval time = {1, 500000};
    say("SNDTIMEO", setsockopt(t, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time));
    length = sizeof time;
    getsockopt(t, SOL_SOCKET, SO_SNDTIMEO, &time, &length);
    printf("%ld.%06ld %d\n", (long)time.tv_sec, (long)time.tv_usec, (int)length);
    struct linger linger = {1, 5};
    say("LINGER", setsockopt(t, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    length = sizeof linger;
    getsockopt(t, SOL_SOCKET, SO_LINGER, &linger, &length);
    printf("%d %d %d\n", linger.l_onoff, linger.l_linger, (int)length);
    struct tcp_info info;
    length = sizeof info;
    memset(&info, 0, sizeof info);
    say("INFO", getsockopt(t, IPPROTO_TCP, TCP_INFO, &info, &length));
    printf("state %d\n", info.tcpi_state);
    close(t);
    close(u);
    close(v);
}

static void about_packets(void) {
    int a = bound(AF_INET, SOCK_DGRAM, "0.0.0.0"), b = socket(AF_INET, SOCK_DGRAM, 0), one = 1, ttl = 7;
    setsockopt(a, IPPROTO_IP, IP_PKTINFO, &one, sizeof one);
    setsockopt(a, IPPROTO_IP, IP_RECVTTL, &one, sizeof one);
    setsockopt(b, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl);
    union name n;
    socklen_t length = at(&n, AF_INET, "127.0.0.3", port_of(a));
    sendto(b, "x", 1, 0, &n.any, length);
    char control[200];
    struct iovec piece = {buffer, 10};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    say("recvmsg", recvmsg(a, &message, 0));
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo *info = (void *)CMSG_DATA(c);
            printf("PKTINFO %d %s\n", info->ipi_ifindex, inet_ntoa(info->ipi_addr));
        } else if (c->cmsg_type == IP_TTL)
            printf("TTL %d\n", *(int *)CMSG_DATA(c));
        else
            printf("another one: %d %d\n", c->cmsg_level, c->cmsg_type);
    }
    close(a);
    close(b);
}

static void urgent(void) {
    int l, c, s;
    connection(AF_INET, "127.0.0.1", &l, &c, &s);
    say("send", send(c, "abc", 3, MSG_OOB));
    until(s, POLLPRI);
    ready("urgent", s);
    got("before it", s, 0);
    int mark = -1;
    ioctl(s, SIOCATMARK, &mark);
    say("at the mark", mark);
    got("it", s, MSG_OOB);
    got("again", s, MSG_OOB);
    say("more", send(c, "def", 3, 0));
    got("more", s, 0);
    close(c);
    close(s);
    close(l);
}

static void waiting(void) {
    int l, c, s;
    connection(AF_INET, "127.0.0.1", &l, &c, &s);
    int e = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = 1};
    epoll_ctl(e, EPOLL_CTL_ADD, s, &event);
    say("nothing yet", epoll_wait(e, &event, 1, 0));
    write(c, "a", 1);
    say("something", epoll_wait(e, &event, 1, 1000));
    say("only once", epoll_wait(e, &event, 1, 0));
    write(c, "b", 1);
    say("again", epoll_wait(e, &event, 1, 1000));
    got("both", s, 0);
    fcntl(c, F_SETFL, O_NONBLOCK);
    memset(buffer, 1, sizeof buffer);
    long total = 0, some;
    while ((some = write(c, buffer, 65536)) > 0)
        total += some;
    say("full", some);
    ready("full", c);
    long back = 0;
    fcntl(s, F_SETFL, O_NONBLOCK);
    for (int patience = 0; back < total && patience < 2000; patience++) {
        while ((some = read(s, buffer, sizeof buffer)) > 0)
            back += some;
        until(s, POLLIN);
    }
    say("all of it", back == total);
    until(c, POLLOUT);
    ready("empty", c);
    /* Its other end travels to a child. */
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    if (fork() == 0) {
        char control[CMSG_SPACE(sizeof(int))];
        struct iovec piece = {buffer, 1};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        recvmsg(pair[1], &message, 0);
        int got = *(int *)CMSG_DATA(CMSG_FIRSTHDR(&message));
        union name n;
        socklen_t length = sizeof n;
        getsockname(got, &n.any, &length);
        show("in the child", &n, length);
        send(got, "from the child", 14, 0);
        _exit(0);
    }
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec piece = {"x", 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &c, sizeof(int));
    say("passed", sendmsg(pair[0], &message, 0));
    close(c);
    wait(NULL);
    got("through it", s, 0);
    got("and its end", s, 0);
    /* What a file has, by sendfile and splice. */
    close(s);
    union name n;
    socklen_t length = at(&n, AF_INET, "127.0.0.1", port_of(l));
    c = socket(AF_INET, SOCK_STREAM, 0);
    connect(c, &n.any, length);
    s = accept(l, NULL, NULL);
    int file = open("internet-file", O_RDWR | O_CREAT | O_TRUNC, 0600), pipes[2];
    write(file, "of a file", 9);
    lseek(file, 0, SEEK_SET);
    say("sendfile", sendfile(s, file, NULL, 100));
    until(c, POLLIN);
    pipe(pipes);
    say("splice", splice(c, NULL, pipes[1], NULL, 100, 0));
    say("of the pipe", read(pipes[0], buffer, 100));
    printf("%.9s\n", buffer);
    unlink("internet-file");
    close(c);
    close(s);
    close(l);
}

/* An echo, and its answer: a raw socket sees both. */
static void raw(void) {
    int r = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    say("raw", r >= 0);
    unsigned char echo[12] = {8, 0, 0, 0, 7, 7, 0, 1, 't', 'e', 'x', 't'};
    unsigned sum = 0;
    for (int i = 0; i < 12; i += 2)
        sum += echo[i] << 8 | echo[i + 1];
    sum = ~((sum & 0xffff) + (sum >> 16));
    echo[2] = sum >> 8, echo[3] = sum;
    union name n;
    socklen_t length = at(&n, AF_INET, "127.0.0.1", 0);
    say("echo", sendto(r, echo, sizeof echo, 0, &n.any, length));
    for (int i = 0; i < 2; i++) {
        until(r, POLLIN);
        long count = recv(r, buffer, sizeof buffer, MSG_DONTWAIT);
        printf("%ld: header %#x, protocol %d, type %d, %.4s\n", count, buffer[0], buffer[9], buffer[20], buffer + 28);
    }
    got("no more", r, MSG_DONTWAIT);
    close(r);
}

static void one_interface(const char *name) {
    int u = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq r;
    memset(&r, 0, sizeof r);
    strcpy(r.ifr_name, name);
    say("flags", ioctl(u, SIOCGIFFLAGS, &r));
    printf("up %d, loopback %d, running %d\n", (r.ifr_flags & IFF_UP) != 0, (r.ifr_flags & IFF_LOOPBACK) != 0, (r.ifr_flags & IFF_RUNNING) != 0);
    say("address", ioctl(u, SIOCGIFADDR, &r));
    printf("%s\n", inet_ntoa(((struct sockaddr_in *)&r.ifr_addr)->sin_addr));
    say("mask", ioctl(u, SIOCGIFNETMASK, &r));
    printf("%s\n", inet_ntoa(((struct sockaddr_in *)&r.ifr_addr)->sin_addr));
    r.ifr_mtu = 0;
    say("MTU", ioctl(u, SIOCGIFMTU, &r));
    printf("%d\n", r.ifr_mtu);
    say("hardware", ioctl(u, SIOCGIFHWADDR, &r));
    printf("%d\n", r.ifr_hwaddr.sa_family);
    say("index", ioctl(u, SIOCGIFINDEX, &r));
    printf("%d\n", r.ifr_ifindex);
    say("name", ioctl(u, SIOCGIFNAME, &r));
    printf("%s\n", r.ifr_name);
    close(u);
}

/* For all that have the port, and only from who may. */
static void broadcasts(void) {
    int s = socket(AF_INET, SOCK_DGRAM, 0), r[3], on = 1, port = 0;
    union name n;
    for (int i = 0; i < 3; i++) {
        r[i] = socket(i == 2 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);
        setsockopt(r[i], SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(r[i], &n.any, at(&n, i == 2 ? AF_INET6 : AF_INET, i == 2 ? "::" : "0.0.0.0", port)) < 0)
            say("bind", -1);
        port = port_of(r[i]);
    }
    socklen_t size = at(&n, AF_INET, "127.255.255.255", port);
    say("may not broadcast", sendto(s, "x", 1, 0, &n.any, size));
    say("nor connect", connect(s, &n.any, size));
    say("SO_BROADCAST", setsockopt(s, SOL_SOCKET, SO_BROADCAST, &on, sizeof on));
    say("broadcast", sendto(s, "to all", 6, 0, &n.any, size));
    for (int i = 0; i < 3; i++) {
        got("each gets it", r[i], MSG_DONTWAIT);
        got("once", r[i], MSG_DONTWAIT);
    }
    size = at(&n, AF_INET, "127.0.0.9", 9);
    say("one talks to somebody else", connect(r[0], &n.any, size));
    size = at(&n, AF_INET, "127.255.255.255", port);
    say("connected to it", connect(s, &n.any, size));
    say("broadcast", send(s, "again", 5, 0));
    for (int i = 0; i < 3; i++) {
        got("the others", r[i], MSG_DONTWAIT);
        close(r[i]);
    }
    close(s);
}

static void interfaces(void) {
    one_interface("lo");
    one_interface("none0");
    struct ifreq all[8];
    struct ifconf list = {.ifc_len = sizeof all, .ifc_req = all};
    int u = socket(AF_INET, SOCK_DGRAM, 0), found = 0;
    say("SIOCGIFCONF", ioctl(u, SIOCGIFCONF, &list));
    for (unsigned i = 0; i < list.ifc_len / sizeof *all; i++)
        found += strcmp(all[i].ifr_name, "lo") == 0;
    say("lo", found);
    close(u);
    /* Who listens stands in /proc/net, for everybody. */
    int l = bound(AF_INET, SOCK_STREAM, "127.0.0.1"), v = bound(AF_INET6, SOCK_DGRAM, "::1");
    listen(l, 3);
    const char *files[] = {"/proc/net/tcp", "/proc/net/udp6"};
    int ports[] = {port_of(l), port_of(v)};
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(files[i], "r");
        char line[300], local[64], remote[64];
        unsigned port, state, number;
        while (f != NULL && fgets(line, sizeof line, f) != NULL)
            if (sscanf(line, "%u: %60[0-9A-F]:%x %60[0-9A-F:] %x", &number, local, &port, remote, &state) == 5 && (int)port == ports[i])
                printf("%s %s %x, length %d\n", local, remote, state, i == 0 ? (int)strlen(line) : 0);
        if (f != NULL)
            fclose(f);
    }
    FILE *f = fopen("/proc/net/dev", "r");
    char line[300], name[32];
    unsigned long bytes = 0, packets = 0;
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, " %30[^:]: %lu %lu", name, &bytes, &packets) == 3 && strcmp(name, "lo") == 0)
            printf("lo has carried something: %d %d\n", bytes > 1000000, packets > 100);
    if (f != NULL)
        fclose(f);
    close(l);
    close(v);
}

int main(void) {
    streams(AF_INET, "127.0.0.1");
    streams(AF_INET6, "::1");
    large();
    refused();
    resets();
    datagrams(AF_INET, "127.0.0.1");
    datagrams(AF_INET6, "::1");
    many();
    names();
    both_families();
    options();
    about_packets();
    urgent();
    waiting();
    broadcasts();
    interfaces();
    raw();
    return 0;
}
