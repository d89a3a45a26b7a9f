/* Local sockets by netlink (unix_diag, sock_diag(7)), as `ss -x` reads them: their names, states, peers, queues, who waits to be accepted; one socket by its
   number, and messages that say nothing sensible. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* What <linux/netlink.h>, <linux/sock_diag.h> and <linux/unix_diag.h> say. */
struct nl_name { uint16_t family, pad; uint32_t pid, groups; };
struct head { uint32_t length; uint16_t type, flags; uint32_t seq, pid; };
struct request { uint8_t family, protocol; uint16_t pad; uint32_t states, ino, show, cookie[2]; };
struct answer { uint8_t family, type, state, pad; uint32_t ino, cookie[2]; };
enum { REQUEST = 1, MULTI = 2, ACK = 4, DUMP = 0x300, BY_FAMILY = 20, DESTROY = 21 };
enum { NAME = 1, VFS = 2, PEER = 4, ICONS = 8, RQLEN = 0x10, MEMINFO = 0x20, UID = 0x40 };
#define ANY 0xffffffffu

static char buffer[65536];
static int diag;
static uint32_t seq;

/* The sockets of this test, by letters. */
static uint32_t known[64];
static int count;

static int add(int fd) {
    struct stat of;
    fstat(fd, &of);
    known[count++] = of.st_ino;
    return fd;
}

static char letter(uint32_t ino) {
    for (int i = 0; i < count; i++)
        if (known[i] == ino)
            return i < 26 ? 'A' + i : 'a' + i - 26;
    return ino ? '?' : '0';
}

static long ask(int flags, int type, const void *body, int length) {
    char whole[256] = {0};
    struct head h = {16 + length, type, REQUEST | flags, ++seq, 0};
    memcpy(whole, &h, 16);
    memcpy(whole + 16, body, length);
    struct nl_name to = {AF_NETLINK, 0, 0, 0};
    return sendto(diag, whole, h.length, 0, (struct sockaddr *)&to, sizeof to);
}

static void show(const char *at, const char *end) {
    const struct answer *is = (const struct answer *)at;
    printf(" %c family %u type %u state %u", letter(is->ino), is->family, is->type, is->state);
    for (at += sizeof *is; end - at >= 4;) {
        int length = *(uint16_t *)at, type = *(uint16_t *)(at + 2) & 0x3fff;
        const unsigned char *value = (const unsigned char *)at + 4;
        const uint32_t *words = (const uint32_t *)value;
        if (length < 4 || length > end - at) {
            printf(" bad");
            break;
        }
        switch (type) {
        case 0:
            printf(" name %d ", length - 4);
            for (int i = 0; i < length - 4; i++)
                putchar(value[i] ? value[i] : '@');
            break;
        case 2: printf(" peer %c", letter(*words)); break;
        case 3:
            printf(" waiting");
            for (int i = 0; i < (length - 4) / 4; i++)
                printf(" %c", letter(words[i]));
            break;
        /* (Linux counts its own memory with what was sent, and knows whose datagrams wait at a socket that hears everybody.) */
        case 4:
            printf(" queues %u", words[0]);
            if (is->state == 10)
                printf(" of %u", words[1]);
            else if (letter(is->ino) != 'J')
                printf(" sent %d", words[1] != 0);
            break;
        case 5: printf(" memory of %d", length - 4); break;
        case 6: printf(" shut %u", *value); break;
        case 7: printf(" uid %u", *words); break;
        case 1: break;
        default: printf(" attribute %d of %d", type, length);
        }
        at += (length + 3) & ~3;
    }
    putchar('\n');
}


/* All messages about sockets of this test, in the order of their letters. */
static void dump(const char *what, uint32_t states, uint32_t wanted) {
    struct request r = {AF_UNIX, 0, 0, states, 0, wanted, {ANY, ANY}};
    ask(DUMP, BY_FAMILY, &r, sizeof r);
    static struct { char bytes[512]; int length; } kept[64];
    memset(kept, 0, sizeof kept);
    int others = 0, twice = 0, multi = 1;
    for (int last = 0; !last;) {
        long got = recv(diag, buffer, sizeof buffer, 0);
        if (got <= 0) {
            printf("%s: %s\n", what, strerror(errno));
            return;
        }
        for (char *at = buffer; at < buffer + got;) {
            struct head *h = (struct head *)at;
            struct answer *is = (struct answer *)(at + 16);
            multi &= (h->flags & MULTI) != 0 && h->seq == seq;
            if (h->type == 3 || h->type == 2) {
                last = 1;
                if (h->type == 2)
                    printf("%s: error %d\n", what, *(int *)(at + 16));
            } else {
                int i = 0;
                while (i < count && known[i] != is->ino)
                    i++;
                if (i == count)
                    others += is->ino == 0;
                else {
                    twice += kept[i].length != 0;
                    kept[i].length = h->length - 16;
                    memcpy(kept[i].bytes, at + 16, h->length - 16 < 512 ? h->length - 16 : 512);
                }
            }
            at += (h->length + 3) & ~3;
        }
    }
    printf("%s: without a number %d, twice %d, parts %d\n", what, others, twice, multi);
    for (int i = 0; i < count; i++)
        if (kept[i].length)
            show(kept[i].bytes, kept[i].bytes + kept[i].length);
}

static void one(const char *what, int flags, int type, const void *body, int length) {
    ask(flags, type, body, length);
    long got = recv(diag, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0) {
        printf("%s: %s\n", what, strerror(errno));
        return;
    }
    struct head *h = (struct head *)buffer;
    if (h->type == 2)
        printf("%s: error %d, flags %#x, length %u\n", what, *(int *)(buffer + 16), h->flags, h->length);
    else {
        printf("%s: type %u flags %u rest %ld\n", what, h->type, h->flags, got - h->length);
        if (h->type == BY_FAMILY)
            show(buffer + 16, buffer + h->length);
    }
    while (recv(diag, buffer, sizeof buffer, MSG_DONTWAIT) > 0)
        printf(" more\n");
}

static struct sockaddr_un name(const char *text, socklen_t *length) {
    struct sockaddr_un of = {.sun_family = AF_UNIX};
    memcpy(of.sun_path, text, strlen(text + 1) + 1);
    *length = offsetof(struct sockaddr_un, sun_path) + strlen(text + 1) + 1;
    return of;
}

static int bound(int type, const char *text) {
    socklen_t length;
    struct sockaddr_un of = name(text, &length);
    int fd = add(socket(AF_UNIX, type, 0));
    if (bind(fd, (struct sockaddr *)&of, length))
        printf("bind: %s\n", strerror(errno));
    return fd;
}

static int joined(int type, const char *text) {
    socklen_t length;
    struct sockaddr_un of = name(text, &length);
    int fd = add(socket(AF_UNIX, type, 0));
    if (connect(fd, (struct sockaddr *)&of, length))
        printf("connect: %s\n", strerror(errno));
    return fd;
}

int main(void) {
    diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 4);
    char path[64];
    snprintf(path, sizeof path, "/tmp/local-diag");
    unlink(path);
    uint32_t all = NAME | PEER | ICONS | RQLEN | UID;

    int a = add(socket(AF_UNIX, SOCK_STREAM, 0));
    int b = bound(SOCK_STREAM, path);
    int c = bound(SOCK_STREAM, "\0hidden");
    int d = bound(SOCK_DGRAM, "\0letters");
    int e = bound(SOCK_SEQPACKET, "\0packets");
    dump("new", ANY, all);

    listen(b, 5);
    listen(c, 7);
    listen(e, 0);
    int f = joined(SOCK_STREAM, path);
    int g = joined(SOCK_STREAM, path);
    int h = joined(SOCK_STREAM, "\0hidden");
    int i = joined(SOCK_SEQPACKET, "\0packets");
    int j = joined(SOCK_DGRAM, "\0letters");
    dump("waiting", ANY, all);

    int k = add(accept(b, 0, 0));
    int l = add(accept(c, 0, 0));
    int m = add(accept(e, 0, 0));
    int pairs[3][2];
    int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    for (int n = 0; n < 3; n++) {
        socketpair(AF_UNIX, types[n], 0, pairs[n]);
        add(pairs[n][0]), add(pairs[n][1]);
    }
    write(f, "hello", 5);
    write(f, "again", 5);
    write(pairs[1][0], "one", 3);
    write(pairs[1][0], "second", 6);
    write(pairs[2][1], "packet", 6);
    write(j, "letter", 6);
    shutdown(h, SHUT_WR);
    dump("accepted", ANY, all);
    dump("listening", 1 << 10, NAME);
    dump("established", 1 << 1, PEER);
    dump("closed", 1 << 7, RQLEN);
    dump("no state", 0, all);
    dump("nothing asked", ANY, 0);
    dump("all bits", 1 << 10, MEMINFO | 0x80 | UID);

    char text[16];
    read(k, text, 4);
    dump("some read", 1 << 1, RQLEN);
    close(f);
    close(d);
    close(pairs[0][1]);
    unlink(path);
    dump("after closes", ANY, NAME | PEER | RQLEN);

    struct request r = {AF_UNIX, 0, 0, ANY, known[2], NAME | PEER, {ANY, ANY}};
    one("by number", 0, BY_FAMILY, &r, sizeof r);
    one("with an acknowledgement", ACK, BY_FAMILY, &r, sizeof r);
    r.states = 0;
    one("its state does not count", 0, BY_FAMILY, &r, sizeof r);
    r.cookie[0] = r.cookie[1] = 0;
    one("another cookie", 0, BY_FAMILY, &r, sizeof r);
    uint64_t cookie = 0;
    socklen_t length = sizeof cookie;
    getsockopt(c, SOL_SOCKET, 57, &cookie, &length);
    memcpy(r.cookie, &cookie, 8);
    one("its cookie", 0, BY_FAMILY, &r, sizeof r);
    r.cookie[0] = r.cookie[1] = ANY;
    r.ino = 0;
    one("number 0", 0, BY_FAMILY, &r, sizeof r);
    r.ino = 0x7fffffff;
    one("nobody's number", 0, BY_FAMILY, &r, sizeof r);
    r.ino = known[2];
    one("short", 0, BY_FAMILY, &r, sizeof r - 4);
    one("short dump", DUMP, BY_FAMILY, &r, sizeof r - 4);
    one("family alone", DUMP, BY_FAMILY, &r, 1);
    one("nothing", DUMP, BY_FAMILY, &r, 0);
    r.protocol = 6;
    one("a protocol", 0, BY_FAMILY, &r, sizeof r);
    r.protocol = 0;
    one("destroy", 0, DESTROY, &r, sizeof r);
    one("destroy short", 0, DESTROY, &r, 4);
    struct { struct request r; char more[8]; } longer = {r, "xxxxxxx"};
    one("longer", 0, BY_FAMILY, &longer, sizeof longer);

    if (setuid(1000) == 0) {
        one("of another user", 0, BY_FAMILY, &r, sizeof r);
        dump("of another user", 1 << 10, NAME | UID);
    }
    (void)a, (void)g, (void)i, (void)l, (void)m;
    return 0;
}
