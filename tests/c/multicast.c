/* Multicast: groups of IPv4 and IPv6, by every option that there is for them; what reaches which socket over `lo`; and what /proc/net tells of groups. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef IP_MULTICAST_ALL
#define IP_MULTICAST_ALL 49
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#ifndef MCAST_MSFILTER
#define MCAST_MSFILTER 48
#endif
#ifndef IP_MSFILTER
#define IP_MSFILTER 41
#endif

/* Numbers of interfaces depend on how many there were before. */
static const char *by_name(unsigned number) {
    static char name[IF_NAMESIZE];
    return number && if_indextoname(number, name) ? name : "none";
}

static void say(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
    fflush(stdout);
}

static struct in_addr v4(const char *text) {
    struct in_addr address;
    inet_pton(AF_INET, text, &address);
    return address;
}

static struct in6_addr v6(const char *text) {
    struct in6_addr address;
    inet_pton(AF_INET6, text, &address);
    return address;
}

static struct sockaddr_in name4(const char *text, int port) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = v4(text)};
}

static struct sockaddr_in6 name6(const char *text, int port, int scope) {
    return (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = v6(text), .sin6_scope_id = scope};
}

static void set(const char *what, int fd, int level, int option, const void *value, size_t size) {
    say(what, setsockopt(fd, level, option, value, size));
}

static void number(const char *what, int fd, int level, int option) {
    int value = -1;
    socklen_t size = sizeof value;
    int result = getsockopt(fd, level, option, &value, &size);
    printf("%s: %d %s %d (%u)\n", what, result, result < 0 ? strerror(errno) : "", result < 0 ? 0 : value, result < 0 ? 0 : size);
    fflush(stdout);
}

static void set_number(const char *what, int fd, int level, int option, int value) {
    set(what, fd, level, option, &value, sizeof value);
    number(what, fd, level, option);
}

/* What waits at a socket, and where it was sent to. */
static void waits(const char *what, int fd) {
    char text[100], control[256], name[64] = "-", spec[64] = "-";
    struct sockaddr_storage from;
    struct pollfd soon = {fd, POLLIN, 0};
    poll(&soon, 1, 60);
    for (int some = 0;; some = 1) {
        struct iovec piece = {text, sizeof text};
        struct msghdr m = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        long count = recvmsg(fd, &m, MSG_DONTWAIT);
        if (count < 0) {
            if (!some || errno != EAGAIN)
                printf("%s: %s\n", what, strerror(errno));
            break;
        }
        printf("%s: \"%.*s\" from %s", what, (int)count, text,
               from.ss_family == AF_INET ? inet_ntop(AF_INET, &((struct sockaddr_in *)&from)->sin_addr, name, sizeof name)
                                         : inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&from)->sin6_addr, name, sizeof name));
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
            if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
                struct in_pktinfo info;
                memcpy(&info, CMSG_DATA(c), sizeof info);
                printf(" to %s by %s (%s)", inet_ntop(AF_INET, &info.ipi_addr, name, sizeof name), by_name(info.ipi_ifindex), inet_ntop(AF_INET, &info.ipi_spec_dst, spec, sizeof spec));
            } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
                struct in6_pktinfo info;
                memcpy(&info, CMSG_DATA(c), sizeof info);
                printf(" to %s by %s", inet_ntop(AF_INET6, &info.ipi6_addr, name, sizeof name), by_name(info.ipi6_ifindex));
            } else {
                printf(" [%d %d]", c->cmsg_level, c->cmsg_type);
            }
        }
        printf("\n");
    }
    fflush(stdout);
}

static int bound4(const char *address, int port) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    struct sockaddr_in name = name4(address, port);
    if (bind(fd, (void *)&name, sizeof name) < 0)
        say("bind", -1);
    return fd;
}

static int bound6(const char *address, int port) {
    int fd = socket(AF_INET6, SOCK_DGRAM, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
    struct sockaddr_in6 name = name6(address, port, 0);
    if (bind(fd, (void *)&name, sizeof name) < 0)
        say("bind", -1);
    return fd;
}

static void to4(const char *what, int fd, const char *address, int port) {
    struct sockaddr_in name = name4(address, port);
    say(what, sendto(fd, what, strlen(what), 0, (void *)&name, sizeof name));
}

static void to6(const char *what, int fd, const char *address, int port, int scope) {
    struct sockaddr_in6 name = name6(address, port, scope);
    say(what, sendto(fd, what, strlen(what), 0, (void *)&name, sizeof name));
}

/* The lines of `lo` in a file of /proc/net. */
static void show(const char *path) {
    char line[200];
    FILE *file = fopen(path, "r");
    if (!file) {
        say(path, -1);
        return;
    }
    printf("%s:\n", path);
    int own = 0;
    while (fgets(line, sizeof line, file)) {
        if (line[0] != '\t' && line[0] != ' ')
            own = strstr(line, "lo ") != 0 || strstr(line, "Device") || strstr(line, "Idx");
        if (strstr(path, "mcfilter") || own)
            fputs(line, stdout);
    }
    fclose(file);
    fflush(stdout);
}

static void members4(void) {
    int fd = bound4("0.0.0.0", 7001);
    struct ip_mreq plain = {v4("239.1.1.1"), v4("0.0.0.0")};
    set("no interface and no route", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &plain, sizeof plain);
    plain.imr_interface = v4("127.0.0.1");
    set("join by address", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &plain, sizeof plain);
    set("join again", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &plain, sizeof plain);
    struct ip_mreqn by_number = {v4("239.1.1.1"), v4("0.0.0.0"), 1};
    set("join by number", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &by_number, sizeof by_number);
    by_number.imr_multiaddr = v4("239.1.1.2");
    set("another", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &by_number, sizeof by_number);
    by_number.imr_multiaddr = v4("10.1.1.2");
    set("no group", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &by_number, sizeof by_number);
    by_number.imr_multiaddr = v4("239.1.1.3"), by_number.imr_ifindex = 77;
    set("no such interface", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &by_number, sizeof by_number);
    plain.imr_interface = v4("10.99.99.99");
    set("no such address", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &plain, sizeof plain);
    set("too short", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &plain, 7);
    set("bad memory", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, (void *)8, sizeof plain);
    number("get of it", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP);
    int stream = socket(AF_INET, SOCK_STREAM, 0);
    plain.imr_interface = v4("127.0.0.1");
    set("a stream", stream, IPPROTO_IP, IP_ADD_MEMBERSHIP, &plain, sizeof plain);
    close(stream);
    show("/proc/net/igmp");
    show("/proc/net/mcfilter");
    int second = bound4("0.0.0.0", 7002);
    set("second member", second, IPPROTO_IP, IP_ADD_MEMBERSHIP, &plain, sizeof plain);
    show("/proc/net/igmp");
    set("leave by address", fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &plain, sizeof plain);
    set("leave again", fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &plain, sizeof plain);
    plain.imr_interface = v4("0.0.0.0"), plain.imr_multiaddr = v4("239.1.1.2");
    set("leave without interface and route", fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &plain, sizeof plain);
    by_number.imr_multiaddr = v4("239.1.1.2"), by_number.imr_ifindex = 77;
    set("leave by a wrong number", fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &by_number, sizeof by_number);
    by_number.imr_ifindex = 1;
    set("leave by number", fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &by_number, sizeof by_number);
    close(second);
    /* As many as a socket may have. */
    int count = 0;
    for (; count < 100; count++) {
        char text[32];
        snprintf(text, sizeof text, "239.2.0.%d", count);
        by_number.imr_multiaddr = v4(text);
        if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &by_number, sizeof by_number) < 0)
            break;
    }
    say("most", -1);
    printf("%d\n", count);
    close(fd);
    show("/proc/net/igmp");
}

static void datagrams4(void) {
    int member = bound4("0.0.0.0", 7003), other = bound4("0.0.0.0", 7003), strict = bound4("0.0.0.0", 7003), grouped = bound4("239.1.1.1", 7003), elsewhere = bound4("127.0.0.1", 7003);
    struct ip_mreqn group = {v4("239.1.1.1"), v4("0.0.0.0"), 1};
    int off = 0;
    number("IP_MULTICAST_ALL", strict, IPPROTO_IP, IP_MULTICAST_ALL);
    set_number("IP_MULTICAST_ALL", strict, IPPROTO_IP, IP_MULTICAST_ALL, off);
    set_number("IP_MULTICAST_ALL", strict, IPPROTO_IP, IP_MULTICAST_ALL, 2);
    int sender = socket(AF_INET, SOCK_DGRAM, 0);
    to4("no route", sender, "239.1.1.1", 7003);
    struct in_addr interface = v4("127.0.0.1");
    set("IP_MULTICAST_IF", sender, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface);
    number("IP_MULTICAST_IF", sender, IPPROTO_IP, IP_MULTICAST_IF);
    to4("nobody is in it", sender, "239.1.1.1", 7003);
    waits("other", other);
    set("join", member, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group);
    to4("hello", sender, "239.1.1.1", 7003);
    waits("member", member);
    waits("other", other);
    waits("strict", strict);
    waits("grouped", grouped);
    waits("elsewhere", elsewhere);
    /* On `lo` it makes no difference. */
    set_number("IP_MULTICAST_LOOP", sender, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
    set_number("IP_MULTICAST_TTL", sender, IPPROTO_IP, IP_MULTICAST_TTL, 7);
    set_number("IP_MULTICAST_TTL", sender, IPPROTO_IP, IP_MULTICAST_TTL, 256);
    set_number("IP_MULTICAST_TTL", sender, IPPROTO_IP, IP_MULTICAST_TTL, -1);
    unsigned char byte = 9;
    set("a byte", sender, IPPROTO_IP, IP_MULTICAST_TTL, &byte, 1);
    number("a byte", sender, IPPROTO_IP, IP_MULTICAST_TTL);
    to4("again", sender, "239.1.1.1", 7003);
    waits("member", member);
    to4("another group", sender, "239.1.1.2", 7003);
    waits("member", member);
    struct sockaddr_in peer = name4("239.1.1.1", 7003);
    say("connect", connect(sender, (void *)&peer, sizeof peer));
    say("send", send(sender, "connected", 9, 0));
    struct sockaddr_in self;
    socklen_t size = sizeof self;
    char text[32];
    getsockname(sender, (void *)&self, &size);
    printf("from %s\n", inet_ntop(AF_INET, &self.sin_addr, text, sizeof text));
    waits("member", member);
    group.imr_ifindex = 99;
    set("no such interface", sender, IPPROTO_IP, IP_MULTICAST_IF, &group, sizeof group);
    interface = v4("10.99.99.99");
    set("no such address", sender, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface);
    set("too short", sender, IPPROTO_IP, IP_MULTICAST_IF, &interface, 3);
    group.imr_ifindex = 1;
    set("leave", member, IPPROTO_IP, IP_DROP_MEMBERSHIP, &group, sizeof group);
    say("send", send(sender, "nobody again", 12, 0));
    waits("member", member);
    interface = v4("0.0.0.0");
    set("no interface", sender, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface);
    number("no interface", sender, IPPROTO_IP, IP_MULTICAST_IF);
    close(member), close(other), close(strict), close(grouped), close(elsewhere), close(sender);
}

static void filter4(const char *what, int fd, const char *address) {
    struct { struct in_addr group, interface; uint32_t mode, count; struct in_addr sources[10]; } filter = {v4("239.1.1.1"), v4(address), 7, 10, {{0}}};
    socklen_t size = sizeof filter;
    int result = getsockopt(fd, IPPROTO_IP, IP_MSFILTER, &filter, &size);
    printf("%s: %d %s", what, result, result < 0 ? strerror(errno) : "");
    for (unsigned i = 0; result == 0 && i < filter.count; i++)
        printf(" %s", inet_ntoa(filter.sources[i]));
    printf(" mode %u (%u)\n", filter.mode, result < 0 ? 0 : size);
    fflush(stdout);
}

static void sources4(void) {
    int fd = bound4("0.0.0.0", 7004), sender = bound4("127.0.0.1", 0), wrong = bound4("127.0.0.9", 0);
    struct ip_mreqn by = {{0}, {0}, 1};
    setsockopt(sender, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof by);
    setsockopt(wrong, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof by);
    struct ip_mreq_source one;
    one.imr_multiaddr = v4("239.1.1.1"), one.imr_interface = v4("127.0.0.1"), one.imr_sourceaddr = v4("127.0.0.9");
    set("block before join", fd, IPPROTO_IP, IP_BLOCK_SOURCE, &one, sizeof one);
    set("drop before join", fd, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &one, sizeof one);
    filter4("filter before join", fd, "127.0.0.1");
    set("join a source", fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &one, sizeof one);
    set("join it again", fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &one, sizeof one);
    set("block in that mode", fd, IPPROTO_IP, IP_BLOCK_SOURCE, &one, sizeof one);
    set("too long", fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &one, sizeof one + 1 > 12 ? 11 : 0);
    to4("a wrong source", sender, "239.1.1.1", 7004);
    to4("the right source", wrong, "239.1.1.1", 7004);
    waits("member", fd);
    one.imr_sourceaddr = v4("127.0.0.1");
    set("join another", fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &one, sizeof one);
    filter4("filter", fd, "127.0.0.1");
    filter4("filter by another interface", fd, "10.99.99.99");
    to4("now right", sender, "239.1.1.1", 7004);
    waits("member", fd);
    set("drop one", fd, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &one, sizeof one);
    set("drop it again", fd, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &one, sizeof one);
    one.imr_sourceaddr = v4("127.0.0.9");
    set("drop the last", fd, IPPROTO_IP, IP_DROP_SOURCE_MEMBERSHIP, &one, sizeof one);
    filter4("filter of none", fd, "127.0.0.1");
    by.imr_multiaddr = v4("239.1.1.1");
    set("join", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &by, sizeof by);
    set("block", fd, IPPROTO_IP, IP_BLOCK_SOURCE, &one, sizeof one);
    set("block again", fd, IPPROTO_IP, IP_BLOCK_SOURCE, &one, sizeof one);
    set("join a source in that mode", fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &one, sizeof one);
    filter4("filter", fd, "127.0.0.1");
    show("/proc/net/mcfilter");
    to4("blocked", wrong, "239.1.1.1", 7004);
    to4("not blocked", sender, "239.1.1.1", 7004);
    waits("member", fd);
    set("unblock", fd, IPPROTO_IP, IP_UNBLOCK_SOURCE, &one, sizeof one);
    set("unblock again", fd, IPPROTO_IP, IP_UNBLOCK_SOURCE, &one, sizeof one);
    to4("unblocked", wrong, "239.1.1.1", 7004);
    waits("member", fd);
    int count = 0;
    for (; count < 30; count++) {
        char text[32];
        snprintf(text, sizeof text, "10.0.0.%d", count);
        one.imr_sourceaddr = v4(text);
        if (setsockopt(fd, IPPROTO_IP, IP_BLOCK_SOURCE, &one, sizeof one) < 0)
            break;
    }
    say("most", -1);
    printf("%d\n", count);
    struct { struct in_addr group, interface; uint32_t mode, count; struct in_addr sources[12]; } filter = {v4("239.1.1.1"), v4("127.0.0.1"), 1, 2, {{0}}};
    filter.sources[0] = v4("127.0.0.1"), filter.sources[1] = v4("10.0.0.1");
    set("set filter", fd, IPPROTO_IP, IP_MSFILTER, &filter, 16 + 8);
    filter4("filter", fd, "127.0.0.1");
    set("too short", fd, IPPROTO_IP, IP_MSFILTER, &filter, 16 + 7);
    set("far too short", fd, IPPROTO_IP, IP_MSFILTER, &filter, 15);
    filter.count = 11;
    set("too many", fd, IPPROTO_IP, IP_MSFILTER, &filter, 16 + 44);
    filter.count = 0, filter.mode = 2;
    set("no mode", fd, IPPROTO_IP, IP_MSFILTER, &filter, 16);
    filter.mode = 0;
    set("exclude none", fd, IPPROTO_IP, IP_MSFILTER, &filter, 16);
    filter4("filter", fd, "127.0.0.1");
    filter.mode = 1;
    set("include none", fd, IPPROTO_IP, IP_MSFILTER, &filter, 16);
    set("include none again", fd, IPPROTO_IP, IP_MSFILTER, &filter, 16);
    filter4("filter", fd, "127.0.0.1");
    close(fd), close(sender), close(wrong);
}

static void protocol_independent(int level) {
    int is6 = level == IPPROTO_IPV6;
    int fd = is6 ? bound6("::", 7005) : bound4("0.0.0.0", 7005);
    struct group_req group = {.gr_interface = 1};
    struct group_source_req source = {.gsr_interface = 1};
    struct sockaddr_in g4 = name4("239.3.3.3", 0), s4 = name4("127.0.0.1", 0);
    struct sockaddr_in6 g6 = name6("ff02::333", 0, 0), s6 = name6("::1", 0, 0);
    memcpy(&group.gr_group, is6 ? (void *)&g6 : (void *)&g4, is6 ? sizeof g6 : sizeof g4);
    memcpy(&source.gsr_group, is6 ? (void *)&g6 : (void *)&g4, is6 ? sizeof g6 : sizeof g4);
    memcpy(&source.gsr_source, is6 ? (void *)&s6 : (void *)&s4, is6 ? sizeof s6 : sizeof s4);
    set("MCAST_JOIN_GROUP", fd, level, MCAST_JOIN_GROUP, &group, sizeof group);
    set("again", fd, level, MCAST_JOIN_GROUP, &group, sizeof group);
    set("too short", fd, level, MCAST_JOIN_GROUP, &group, sizeof group - 1);
    set("MCAST_BLOCK_SOURCE", fd, level, MCAST_BLOCK_SOURCE, &source, sizeof source);
    set("again", fd, level, MCAST_BLOCK_SOURCE, &source, sizeof source);
    set("MCAST_JOIN_SOURCE_GROUP", fd, level, MCAST_JOIN_SOURCE_GROUP, &source, sizeof source);
    set("MCAST_UNBLOCK_SOURCE", fd, level, MCAST_UNBLOCK_SOURCE, &source, sizeof source);
    set("again", fd, level, MCAST_UNBLOCK_SOURCE, &source, sizeof source);
    set("MCAST_JOIN_SOURCE_GROUP", fd, level, MCAST_JOIN_SOURCE_GROUP, &source, sizeof source);
    struct { uint32_t interface, pad; struct sockaddr_storage group; uint32_t mode, count; struct sockaddr_storage sources[66]; } *filter = calloc(1, 144 + 66 * 128);
    filter->interface = 1, filter->mode = 9, filter->count = 4;
    filter->group = group.gr_group;
    socklen_t size = sizeof *filter;
    say("MCAST_MSFILTER", getsockopt(fd, level, MCAST_MSFILTER, filter, &size));
    char text[64] = "-";
    inet_ntop(filter->sources[0].ss_family, is6 ? (void *)&((struct sockaddr_in6 *)filter->sources)->sin6_addr : (void *)&((struct sockaddr_in *)filter->sources)->sin_addr, text, sizeof text);
    printf("%u %u %s (%u)\n", filter->mode, filter->count, text, size);
    filter->count = 1, filter->mode = 0;
    set("MCAST_MSFILTER", fd, level, MCAST_MSFILTER, filter, 144 + 128);
    filter->count = 2;
    set("too short", fd, level, MCAST_MSFILTER, filter, 144 + 128);
    set("far too short", fd, level, MCAST_MSFILTER, filter, 143);
    filter->sources[0].ss_family = AF_UNIX, filter->count = 1;
    set("a wrong family", fd, level, MCAST_MSFILTER, filter, 144 + 128);
    filter->count = 65;
    set("too many", fd, level, MCAST_MSFILTER, filter, 144 + 65 * 128);
    set("MCAST_LEAVE_SOURCE_GROUP", fd, level, MCAST_LEAVE_SOURCE_GROUP, &source, sizeof source);
    set("MCAST_LEAVE_GROUP", fd, level, MCAST_LEAVE_GROUP, &group, sizeof group);
    set("again", fd, level, MCAST_LEAVE_GROUP, &group, sizeof group);
    set("MCAST_JOIN_SOURCE_GROUP", fd, level, MCAST_JOIN_SOURCE_GROUP, &source, sizeof source);
    set("MCAST_LEAVE_SOURCE_GROUP", fd, level, MCAST_LEAVE_SOURCE_GROUP, &source, sizeof source);
    set("MCAST_LEAVE_SOURCE_GROUP", fd, level, MCAST_LEAVE_SOURCE_GROUP, &source, sizeof source);
    group.gr_group.ss_family = AF_UNIX, source.gsr_source.ss_family = AF_UNIX;
    set("a wrong family", fd, level, MCAST_JOIN_GROUP, &group, sizeof group);
    set("a wrong family", fd, level, MCAST_LEAVE_GROUP, &group, sizeof group);
    set("a wrong family", fd, level, MCAST_JOIN_SOURCE_GROUP, &source, sizeof source);
    free(filter);
    close(fd);
}

static void members6(void) {
    int fd = bound6("::", 7006), other = bound6("::", 7006), strict = bound6("::", 7006), sender = socket(AF_INET6, SOCK_DGRAM, 0);
    number("IPV6_MULTICAST_ALL", strict, IPPROTO_IPV6, IPV6_MULTICAST_ALL);
    set_number("IPV6_MULTICAST_ALL", strict, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
    struct ipv6_mreq group = {v6("ff02::1234"), 1};
    set("join", fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group);
    set("join again", fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group);
    group.ipv6mr_interface = 0;
    set("join again by any", fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group);
    group.ipv6mr_interface = 77;
    set("no such interface", fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group);
    set("leave there", fd, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &group, sizeof group);
    group.ipv6mr_multiaddr = v6("fe80::1");
    set("no group", fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group);
    set("no group", fd, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &group, sizeof group);
    set("too short", fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, 19);
    int stream = socket(AF_INET6, SOCK_STREAM, 0);
    set("a stream", stream, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group);
    close(stream);
    show("/proc/net/igmp6");
    to6("by scope", sender, "ff02::1234", 7006, 1);
    waits("member", fd), waits("other", other), waits("strict", strict);
    set_number("IPV6_MULTICAST_IF", sender, IPPROTO_IPV6, IPV6_MULTICAST_IF, 77);
    set_number("IPV6_MULTICAST_IF", sender, IPPROTO_IPV6, IPV6_MULTICAST_IF, 1);
    to6("by option", sender, "ff02::1234", 7006, 0);
    waits("member", fd), waits("other", other), waits("strict", strict);
    set_number("IPV6_MULTICAST_LOOP", sender, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0);
    set_number("IPV6_MULTICAST_LOOP", sender, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 2);
    set_number("IPV6_MULTICAST_HOPS", sender, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 5);
    set_number("IPV6_MULTICAST_HOPS", sender, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 256);
    set_number("IPV6_MULTICAST_HOPS", sender, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, -1);
    to6("not looped", sender, "ff02::1234", 7006, 0);
    waits("member", fd);
    to6("all nodes", sender, "ff02::1", 7006, 1);
    waits("member", fd);
    to6("another", sender, "ff02::4321", 7006, 1);
    waits("member", fd);
    group.ipv6mr_multiaddr = v6("ff02::1234"), group.ipv6mr_interface = 0;
    set("leave by any", fd, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &group, sizeof group);
    set("leave again", fd, IPPROTO_IPV6, IPV6_LEAVE_GROUP, &group, sizeof group);
    to6("nobody", sender, "ff02::1234", 7006, 0);
    waits("member", fd);
    /* Both families at one socket. */
    struct ip_mreqn four = {v4("239.5.5.5"), v4("0.0.0.0"), 1};
    set("a group of IPv4", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &four, sizeof four);
    int sender4 = socket(AF_INET, SOCK_DGRAM, 0);
    struct in_addr interface = v4("127.0.0.1");
    setsockopt(sender4, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface);
    to4("four", sender4, "239.5.5.5", 7006);
    waits("member", fd);
    /* Many. */
    int count = 0;
    for (; count < 200; count++) {
        char text[32];
        snprintf(text, sizeof text, "ff02::5:%x", count);
        group.ipv6mr_multiaddr = v6(text), group.ipv6mr_interface = 1;
        if (setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group) < 0)
            break;
    }
    printf("%d\n", count);
    close(fd), close(other), close(strict), close(sender), close(sender4);
    show("/proc/net/igmp6");
    show("/proc/net/mcfilter6");
}

/* ---- through a link, whose other end is this program */

#define TUNSETIFF 0x400454ca
#define TAP_NO_PI 0x1002
static int tap, tap_number;

static unsigned sum(const unsigned char *bytes, int count, unsigned start) {
    for (int i = 0; i < count; i++)
        start += i % 2 ? bytes[i] : bytes[i] << 8;
    while (start >> 16)
        start = (start & 0xffff) + (start >> 16);
    return start;
}

/* What is said of groups with these last bytes, within so many ms: kinds of records, or types of older messages, each once. */
static void said(const char *what, int ms) {
    char all[400] = "";
    struct pollfd p = {tap, POLLIN, 0};
    for (int waited = 0; waited < ms; waited += 50) {
        poll(&p, 1, 50);
        unsigned char f[2000], *ip = f + 14;
        long count;
        while ((count = read(tap, f, sizeof f)) > 0) {
            char one[100] = "";
            if (f[12] == 8 && f[13] == 0 && ip[9] == 2) {
                unsigned char *m = ip + (ip[0] & 15) * 4;
                if (m[0] == 0x22) {
                    unsigned char *r = m + 8;
                    for (int i = m[7]; i > 0; i--, r += 8 + 4 * r[3])
                        if (r[4] == 239)
                            snprintf(one, sizeof one, "[%d 239.%d.%d.%d %d ttl %d class %#x to %d %s]", r[0], r[5], r[6], r[7], r[3], ip[8], ip[1], ip[19], sum(m, count - 14 - (m - ip), 0) == 0xffff && ip[20] == 148 ? "right" : "wrong");
                } else if (m[4] == 239) {
                    snprintf(one, sizeof one, "[type %#x 239.%d.%d.%d to %d.%d]", m[0], m[5], m[6], m[7], ip[16], ip[19]);
                }
            } else if (f[12] == 0x86 && ip[6] == 0 && ip[40] == 58 && ip[48] == 143) {
                unsigned char *r = ip + 56;
                for (int i = ip[55]; i > 0; i--, r += 20 + 16 * r[3])
                    if (r[4] == 0xff && r[18] == 0x77)
                        snprintf(one, sizeof one, "[%d ff%02x..77%02x %d hops %d to %x]", r[0], r[5], r[19], r[3], ip[7], ip[39]);
            }
            if (*one && !strstr(all, one))
                strcat(all, one);
        }
    }
    printf("%s: %s\n", what, all);
    fflush(stdout);
}

static void query(int version, const char *group) {
    unsigned char f[14 + 24 + 12] = {1, 0, 0x5e, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0}, *ip = f + 14, *m = ip + 24;
    int size = version == 3 ? 12 : 8;
    struct in_addr of = v4(group), from = v4("10.77.0.2"), to = v4(of.s_addr ? group : "224.0.0.1");
    ip[0] = 0x46, ip[1] = 0xc0, ip[3] = 24 + size, ip[8] = 1, ip[9] = 2, ip[20] = 148, ip[21] = 4;
    memcpy(ip + 12, &from, 4), memcpy(ip + 16, &to, 4), memcpy(m + 4, &of, 4);
    if (of.s_addr)
        f[3] = ip[17] & 127, f[4] = ip[18], f[5] = ip[19];
    m[0] = 0x11, m[1] = 5;
    if (version == 3)
        m[8] = 2, m[9] = 125;
    unsigned s = ~sum(m, size, 0), h;
    m[2] = s >> 8, m[3] = s;
    h = ~sum(ip, 24, 0);
    ip[10] = h >> 8, ip[11] = h;
    if (write(tap, f, 14 + 24 + size) < 0)
        say("write", -1);
}

static void query6(void) {
    unsigned char f[14 + 48 + 28] = {0x33, 0x33, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 0x86, 0xdd}, *ip = f + 14, *m = ip + 48;
    struct in6_addr from = v6("fe80::2"), to = v6("ff02::1");
    ip[0] = 0x60, ip[5] = 8 + 28, ip[7] = 1;
    memcpy(ip + 8, &from, 16), memcpy(ip + 24, &to, 16);
    ip[40] = 58, ip[42] = 5, ip[43] = 2;
    m[0] = 130, m[4] = 1, m[24] = 2, m[25] = 125;
    unsigned s = ~sum(m, 28, sum(ip + 8, 32, 58 + 28));
    m[2] = s >> 8, m[3] = s;
    if (write(tap, f, sizeof f) < 0)
        say("write", -1);
}

static void link_groups(void) {
    struct ifreq r = {0};
    tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    strcpy(r.ifr_name, "mc0");
    r.ifr_flags = TAP_NO_PI;
    if (tap < 0 || ioctl(tap, TUNSETIFF, &r) < 0) {
        say("tap", -1);
        return;
    }
    tap_number = if_nametoindex("mc0");
    int control = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in own = name4("10.77.0.1", 0);
    memcpy(&r.ifr_addr, &own, sizeof own);
    say("address", ioctl(control, SIOCSIFADDR, &r));
    own = name4("255.255.255.0", 0);
    memcpy(&r.ifr_addr, &own, sizeof own);
    say("mask", ioctl(control, SIOCSIFNETMASK, &r));
    r.ifr_flags = IFF_UP;
    say("up", ioctl(control, SIOCSIFFLAGS, &r));
    int six = bound6("::", 7010), sender6 = socket(AF_INET6, SOCK_DGRAM, 0);
    /* (Until its address of IPv6 is found to be free.) */
    struct sockaddr_in6 to = name6("ff02::7701", 7010, tap_number);
    for (int i = 0; i < 80 && sendto(sender6, "early", 5, 0, (void *)&to, sizeof to) < 0; i++)
        usleep(100000);
    said("before", 1100);
    int fd = bound4("0.0.0.0", 7009), sender = socket(AF_INET, SOCK_DGRAM, 0), strict = bound4("0.0.0.0", 7009);
    int off = 0;
    setsockopt(strict, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off);
    struct ip_mreqn group = {v4("239.7.7.7"), v4("0.0.0.0"), tap_number};
    set("join", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group);
    said("joined", 1100);
    set("interface", sender, IPPROTO_IP, IP_MULTICAST_IF, &group, sizeof group);
    to4("looped", sender, "239.7.7.7", 7009);
    waits("member", fd), waits("strict", strict);
    set_number("IP_MULTICAST_LOOP", sender, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
    to4("not looped", sender, "239.7.7.7", 7009);
    waits("member", fd);
    query(3, "0.0.0.0");
    said("asked", 700);
    query(3, "239.7.7.7");
    said("asked of one", 700);
    struct ip_mreq_source source;
    source.imr_multiaddr = v4("239.7.7.7"), source.imr_interface = v4("10.77.0.1"), source.imr_sourceaddr = v4("10.77.0.9");
    set("block", fd, IPPROTO_IP, IP_BLOCK_SOURCE, &source, sizeof source);
    said("blocked", 60);
    set("leave", fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &group, sizeof group);
    said("left", 1300);
    query(3, "0.0.0.0");
    said("asked", 700);
    set("source", fd, IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, &source, sizeof source);
    said("came", 60);
    set("leave", fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &group, sizeof group);
    said("left", 1300);
    struct ipv6_mreq six_group = {v6("ff02::7701"), tap_number};
    to6("nobody", sender6, "ff02::7701", 7010, tap_number);
    waits("six", six);
    set("join", six, IPPROTO_IPV6, IPV6_JOIN_GROUP, &six_group, sizeof six_group);
    said("joined", 1100);
    to6("looped", sender6, "ff02::7701", 7010, tap_number);
    char text[20];
    usleep(60000);
    printf("%ld\n", (long)recv(six, text, sizeof text, MSG_DONTWAIT));
    set_number("IPV6_MULTICAST_LOOP", sender6, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0);
    to6("not looped", sender6, "ff02::7701", 7010, tap_number);
    waits("six", six);
    to6("no scope", sender6, "ff05::7702", 7010, 0);
    query6();
    said("asked", 1000);
    close(six);
    said("left", 1300);
    /* An older router. */
    set("join", fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group);
    said("joined", 1100);
    query(2, "0.0.0.0");
    said("asked by an older one", 700);
    close(fd);
    said("left", 1100);
    close(tap), close(control), close(sender), close(sender6), close(strict);
}

static void limits(void) {
    const char *paths[] = {"ipv4/igmp_max_memberships", "ipv4/igmp_max_msf", "ipv4/igmp_qrv", "ipv6/mld_max_msf", "ipv6/mld_qrv"};
    for (int i = 0; i < 5; i++) {
        char path[100], text[32] = "?\n";
        snprintf(path, sizeof path, "/proc/sys/net/%s", paths[i]);
        FILE *file = fopen(path, "r");
        if (file && fgets(text, sizeof text, file))
            fclose(file);
        printf("%s %s", paths[i], text);
    }
}

int main(void) {
    members4();
    datagrams4();
    sources4();
    protocol_independent(IPPROTO_IP);
    protocol_independent(IPPROTO_IPV6);
    members6();
    link_groups();
    limits();
    return 0;
}
