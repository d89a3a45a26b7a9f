/* Netlink: getifaddrs(3) of the loopback interface, dumps of links and addresses as they lie in messages, names of sockets, errors, what a user may not change. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What <linux/netlink.h> and <linux/rtnetlink.h> say. */
struct nl_name { uint16_t family, pad; uint32_t pid, groups; };
struct head { uint32_t length; uint16_t type, flags; uint32_t seq, pid; };
enum { REQUEST = 1, MULTI = 2, ACK = 4, DUMP = 0x300, REPLACE = 0x100, EXCL = 0x200, CREATE = 0x400 };

static char buffer[65536];
static uint32_t seq;

static void say(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
}

static int netlink(int protocol) {
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
}

static long ask(int fd, int type, int flags, const void *body, int length) {
    char whole[1024] = {0};
    struct head h = {16 + length, type, REQUEST | flags, ++seq, 0};
    memcpy(whole, &h, 16);
    memcpy(whole + 16, body, length);
    struct nl_name to = {AF_NETLINK, 0, 0, 0};
    return sendto(fd, whole, h.length, 0, (struct sockaddr *)&to, sizeof to);
}

/* The answer's error, quoted type and length. */
static void refused(const char *what, int fd) {
    long count = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (count < 0) {
        say(what, count);
        return;
    }
    struct head *h = (struct head *)buffer;
    int error = *(int *)(buffer + 16);
    struct head *quoted = (struct head *)(buffer + 20);
    printf("%s: type %u error %d of type %u seq %d\n", what, h->type, error, quoted->type, h->seq == seq);
}

static void attributes(const char *at, const char *end, const char *wanted) {
    while (end - at >= 4) {
        int length = *(uint16_t *)at, type = *(uint16_t *)(at + 2) & 0x3fff;
        if (length < 4 || length > end - at) {
            printf(" bad");
            return;
        }
        if (type && type < 64 && strchr(wanted, type)) {
            printf(" %d:", type);
            for (int i = 4; i < length; i++)
                printf("%02x", (unsigned char)at[i]);
        }
        at += (length + 3) & ~3;
    }
}

/* All messages of a dump about interface 1. */
static void dump(const char *what, int fd, int type, const void *body, int length, int fixed, const char *wanted) {
    say(what, ask(fd, type, DUMP, body, length));
    int multi = 1, last = 0, mine = 1;
    while (!last) {
        struct nl_name from;
        socklen_t size = sizeof from;
        long count = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &size);
        if (count <= 0) {
            say("dump", count);
            return;
        }
        if (size != sizeof from || from.family != AF_NETLINK || from.pid || from.groups)
            printf("from %u %u\n", from.family, from.pid);
        for (char *at = buffer; at < buffer + count;) {
            struct head *h = (struct head *)at;
            multi &= (h->flags & MULTI) != 0;
            mine &= h->seq == seq;
            if (h->type == 3) {
                last = 1;
                printf(" done, length %u, %d\n", h->length, *(int *)(at + 16));
            } else if (h->type == 2) {
                last = 1;
                printf(" error %d\n", *(int *)(at + 16));
            } else if (*(uint32_t *)(at + 20) == 1) {
                printf(" %u:", h->type);
                for (int i = 0; i < 4; i++)
                    printf(" %u", (unsigned char)at[16 + i]);
                attributes(at + 16 + fixed, at + h->length, wanted);
                printf("\n");
            }
            at += (h->length + 3) & ~3;
        }
    }
    printf(" multi %d mine %d\n", multi, mine);
}

static void interfaces(void) {
    struct ifaddrs *all, *at;
    say("getifaddrs", getifaddrs(&all));
    for (at = all; at; at = at->ifa_next) {
        if (strcmp(at->ifa_name, "lo"))
            continue;
        char text[64] = "", mask[64] = "";
        int family = at->ifa_addr ? at->ifa_addr->sa_family : -1;
        if (family == AF_INET) {
            inet_ntop(family, &((struct sockaddr_in *)at->ifa_addr)->sin_addr, text, sizeof text);
            inet_ntop(family, &((struct sockaddr_in *)at->ifa_netmask)->sin_addr, mask, sizeof mask);
        } else if (family == AF_INET6) {
            inet_ntop(family, &((struct sockaddr_in6 *)at->ifa_addr)->sin6_addr, text, sizeof text);
            inet_ntop(family, &((struct sockaddr_in6 *)at->ifa_netmask)->sin6_addr, mask, sizeof mask);
        }
        printf(" %s %d %s %s %#x\n", at->ifa_name, family, text, mask, at->ifa_flags);
    }
    freeifaddrs(all);
    printf("index %u, none %u\n", if_nametoindex("lo"), if_nametoindex("none"));
    struct if_nameindex *names = if_nameindex();
    printf("first %u %s\n", names[0].if_index, names[0].if_name);
    if_freenameindex(names);
}

static void names(void) {
    int a = netlink(0), b = netlink(0), one, two[2];
    struct nl_name n = {AF_NETLINK, 0, 0, 0};
    socklen_t length = sizeof n;
    say("bind", bind(a, (struct sockaddr *)&n, sizeof n));
    say("name", getsockname(a, (struct sockaddr *)&n, &length));
    printf("length %u, family %u, own pid %d, groups %u\n", length, n.family, n.pid == (uint32_t)getpid(), n.groups);
    say("bind a name that is taken", bind(b, (struct sockaddr *)&n, sizeof n));
    n.pid = 12345678;
    say("bind again", bind(a, (struct sockaddr *)&n, sizeof n));
    say("bind", bind(b, (struct sockaddr *)&n, sizeof n));
    say("bind short", bind(b, (struct sockaddr *)&n, 4));
    n.family = AF_INET;
    say("bind of another family", bind(b, (struct sockaddr *)&n, sizeof n));
    n.family = AF_NETLINK;
    n.groups = 0x11;
    say("bind groups", bind(b, (struct sockaddr *)&n, sizeof n));
    length = sizeof n;
    getsockname(b, (struct sockaddr *)&n, &length);
    printf("groups %#x\n", n.groups);
    one = 5;
    say("join", setsockopt(b, 270, 1, &one, 4));
    one = 0;
    say("join none", setsockopt(b, 270, 1, &one, 4));
    one = 1;
    say("strict", setsockopt(b, 270, 12, &one, 4));
    say("unknown", setsockopt(b, 270, 99, &one, 4));
    say("of IP", setsockopt(b, 0, 2, &one, 4));
    length = sizeof one;
    getsockopt(b, SOL_SOCKET, SO_DOMAIN, &one, &length);
    printf("domain %d\n", one);
    getsockopt(b, SOL_SOCKET, SO_PROTOCOL, &one, &length);
    printf("protocol %d\n", one);
    getsockopt(b, SOL_SOCKET, SO_TYPE, &one, &length);
    printf("type %d\n", one);
    say("listen", listen(b, 1));
    say("accept", accept(b, 0, 0));
    say("shutdown", shutdown(b, 2));
    say("nothing", recv(b, buffer, 10, MSG_DONTWAIT));
    struct pollfd p = {b, POLLIN | POLLOUT, 0};
    poll(&p, 1, 0);
    printf("ready %#x\n", p.revents);
    close(a);
    close(b);
    say("stream", socket(AF_NETLINK, SOCK_STREAM, 0));
    say("datagram", close(socket(AF_NETLINK, SOCK_DGRAM, 0)));
    say("protocol", socket(AF_NETLINK, SOCK_RAW, 31));
    say("protocol", socket(AF_NETLINK, SOCK_RAW, 300));
    say("pair", socketpair(AF_NETLINK, SOCK_RAW, 0, two));
    say("events", close(netlink(15)));
}

static void requests(int root) {
    int fd = netlink(0);
    char link[16] = {0}, address[8] = {0}, none[1] = {0};
    dump("links", fd, 18, link, sizeof link, 16, "\1\2\3\4\15\20\21");
    address[0] = AF_INET;
    dump("addresses", fd, 22, address, sizeof address, 8, "\1\2\3\10");
    address[0] = AF_INET6;
    dump("addresses of IPv6", fd, 22, address, sizeof address, 8, "\1\2\3");
    memset(link, 0, sizeof link);
    *(int *)(link + 4) = 999;
    ask(fd, 18, 0, link, sizeof link);
    refused("no such link", fd);
    *(int *)(link + 4) = 0;
    ask(fd, 18, 0, link, sizeof link);
    refused("nameless link", fd);
    ask(fd, 18, 0, link, 4);
    refused("short", fd);
    ask(fd, 18, 0, none, 0);
    refused("empty", fd);
    ask(fd, 18, ACK, none, 0);
    refused("empty, with an answer", fd);
    ask(fd, 1, ACK, none, 1);
    refused("control", fd);
    ask(fd, 2000, 0, none, 1);
    refused("unknown", fd);
    /* Not a request, and lengths that lie. */
    struct head h = {16, 18, 0, 1, 0};
    say("no request", send(fd, &h, 16, 0));
    h.flags = REQUEST;
    h.length = 400;
    say("too long", send(fd, &h, 16, 0));
    h.length = 3;
    say("too short", send(fd, &h, 16, 0));
    say("nothing", recv(fd, buffer, 10, MSG_DONTWAIT));
    /* 127.0.0.9/8 for lo. */
    char new[16] = {AF_INET, 8, 0, 254, 1, 0, 0, 0, 8, 0, 2, 0, 127, 0, 0, 9};
    for (int i = 0; i < 2; i++) {
        ask(fd, 20, ACK | CREATE | EXCL, new, sizeof new);
        refused(root ? "new address" : "new address, as a user", fd);
    }
    new[4] = 99;
    ask(fd, 20, ACK | CREATE | EXCL, new, sizeof new);
    refused("of no link", fd);
    new[4] = 1;
    new[1] = 40;
    ask(fd, 20, ACK | CREATE | EXCL, new, sizeof new);
    refused("prefix", fd);
    new[1] = 8;
    for (int i = 0; i < 2; i++) {
        ask(fd, 21, ACK, new, sizeof new);
        refused("delete", fd);
    }
    /* 10.77.0.0/16 by lo. */
    char route[28] = {AF_INET, 16, 0, 0, 254, 3, 253, 1, 0, 0, 0, 0, 8, 0, 1, 0, 10, 77, 0, 0, 8, 0, 4, 0, 1, 0, 0, 0};
    ask(fd, 24, ACK, route, sizeof route);
    refused("route, not to be made", fd);
    for (int i = 0; i < 2; i++) {
        ask(fd, 24, ACK | CREATE | EXCL, route, sizeof route);
        refused("route", fd);
    }
    for (int i = 0; i < 2; i++) {
        ask(fd, 25, ACK, route, sizeof route);
        refused("route deleted", fd);
    }
    route[1] = 40;
    ask(fd, 24, ACK | CREATE, route, sizeof route);
    refused("long prefix", fd);
    struct nl_name to = {AF_NETLINK, 0, 4711, 0};
    say("to somebody", sendto(fd, &h, 16, 0, (struct sockaddr *)&to, sizeof to));
    close(fd);
    /* Parts of an answer. */
    fd = netlink(0);
    *(int *)(link + 4) = 1;
    ask(fd, 18, 0, link, sizeof link);
    long whole = recv(fd, buffer, 20, MSG_PEEK | MSG_TRUNC);
    printf("more than there was room for: %d\n", whole > 20);
    say("cut", recv(fd, buffer, 20, 0));
    say("and gone", recv(fd, buffer, 20, MSG_DONTWAIT));
    close(fd);
}

int main(void) {
    setvbuf(stdout, 0, _IOLBF, 0);
    alarm(30);
    interfaces();
    names();
    int root = geteuid() == 0;
    requests(root);
    if (root && seteuid(1000) == 0) {
        requests(0);
        if (seteuid(0))
            say("seteuid", -1);
    }
    return 0;
}
