/* Packet sockets that share frames (PACKET_FANOUT): each frame goes to one of a group. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What <linux/if_packet.h> says. */
struct link { unsigned short family, protocol; int interface; unsigned short hardware; unsigned char kind, length, address[8]; };
enum { PACKET = 263, FANOUT = 18, PROTOCOL = 0x88b5 };
enum { HASH, LB, CPU, ROLLOVER, RND, QM, CBPF, EBPF };

static void say(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
    fflush(stdout);
}

static int tap(int protocol, int interface) {
    int fd = socket(AF_PACKET, SOCK_RAW, htons(protocol));
    struct link at = {AF_PACKET, htons(protocol), interface, 0, 0, 0, {0}};
    if (interface && bind(fd, (void *)&at, sizeof at))
        say("bind", -1);
    return fd;
}

static void join(const char *what, int fd, int id, int type, int flags) {
    int value = id | type << 16 | flags << 16;
    say(what, setsockopt(fd, PACKET, FANOUT, &value, sizeof value));
}

static void get(int fd) {
    int value = -1;
    socklen_t length = sizeof value;
    int result = getsockopt(fd, PACKET, FANOUT, &value, &length);
    if (result < 0)
        say("get", result);
    else
        printf("get %#x (%u)\n", value, length);
}

static int counted(int fd) {
    char frame[200];
    int count = 0;
    while (recv(fd, frame, sizeof frame, MSG_DONTWAIT) > 0)
        count++;
    return count;
}

static void frames(int lo, int count) {
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    struct link to = {AF_PACKET, htons(PROTOCOL), lo, 0, 0, 6, {0}};
    for (int at = 0; at < count; at++) {
        unsigned char frame[64] = {[12] = PROTOCOL >> 8, [13] = PROTOCOL & 0xff, [14] = at};
        if (sendto(fd, frame, sizeof frame, 0, (void *)&to, sizeof to) < 0)
            say("sendto", -1);
    }
    close(fd);
    usleep(50000);
}

int main(void) {
    int lo = if_nametoindex("lo");
    int a = tap(PROTOCOL, lo), b = tap(PROTOCOL, lo), alone = tap(PROTOCOL, lo);
    get(a);
    join("balanced", a, 7, LB, 0);
    get(a);
    join("again", a, 7, LB, 0);
    join("another kind", b, 7, HASH, 0);
    join("the same", b, 7, LB, 0);
    int value = 7 | LB << 16, other = tap(0x88b6, lo), everywhere = tap(PROTOCOL, 0), nowhere = socket(AF_PACKET, SOCK_RAW, 0);
    join("another protocol", other, 7, LB, 0);
    join("another interface", everywhere, 7, LB, 0);
    say("nothing to take", setsockopt(nowhere, PACKET, FANOUT, &value, sizeof value));
    join("no kind", other, 8, 99, 0);
    say("short", setsockopt(other, PACKET, FANOUT, &value, 2));
    frames(lo, 10);
    int first = counted(a), second = counted(b);
    printf("balanced %d and %d, alone %d, everywhere %d\n", first, second, counted(alone), counted(everywhere));
    close(b);
    frames(lo, 10);
    printf("one left %d, alone %d\n", counted(a), counted(alone));
    struct link elsewhere = {AF_PACKET, htons(PROTOCOL), 0, 0, 0, 0, {0}};
    say("bind of a member", bind(a, (void *)&elsewhere, sizeof elsewhere));
    close(a);
    static const int kinds[] = {HASH, CPU, RND, QM};
    for (unsigned at = 0; at < sizeof kinds / sizeof *kinds; at++) {
        a = tap(PROTOCOL, lo), b = tap(PROTOCOL, lo);
        join("first", a, 20 + at, kinds[at], 0);
        join("second", b, 20 + at, kinds[at], 0);
        get(b);
        frames(lo, 20);
        first = counted(a), second = counted(b);
        printf("kind %d: all %d", kinds[at], first + second);
        if (kinds[at] == HASH || kinds[at] == QM)
            printf(", at one %d", first > second ? first : second);
        printf("\n");
        close(a), close(b);
    }
    a = tap(PROTOCOL, lo), b = tap(PROTOCOL, lo);
    join("a number of its own", a, 0, LB, 0x2000);
    value = 0;
    socklen_t length = sizeof value;
    getsockopt(a, PACKET, FANOUT, &value, &length);
    printf("kind and flags %#x\n", value >> 16);
    join("the second", b, value & 0xffff, LB, 0);
    frames(lo, 4);
    printf("%d %d\n", counted(a), counted(b));
    return 0;
}
