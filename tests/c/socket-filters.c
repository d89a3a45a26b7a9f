/* Programs of BPF at Internet sockets: SO_ATTACH_FILTER, SO_GET_FILTER, SO_LOCK_FILTER, and which of several sockets of a port gets something
   (SO_ATTACH_REUSEPORT_CBPF). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* As in linux/filter.h, which not every C library brings along. */
struct sock_filter {
    uint16_t code;
    uint8_t jt, jf;
    uint32_t k;
};
struct sock_fprog {
    unsigned short len;
    struct sock_filter *filter;
};
enum { BPF_LD = 0, BPF_ALU = 4, BPF_JMP = 5, BPF_RET = 6, BPF_W = 0, BPF_B = 0x10, BPF_ABS = 0x20, BPF_LEN = 0x80, BPF_SUB = 0x10, BPF_JEQ = 0x10, BPF_K = 0, BPF_A = 0x10 };
#define SKF_NET_OFF (-0x100000)

#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif
#ifndef SO_DETACH_REUSEPORT_BPF
#define SO_DETACH_REUSEPORT_BPF 68
#endif

#define RETURN(k) {BPF_RET | BPF_K, 0, 0, k}
#define IF(k) {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, k}, RETURN(0xffff), RETURN(0)
static struct sock_filter none[] = {RETURN(0)}, all[] = {RETURN(0xffff)}, three[] = {RETURN(3)}, ten[] = {RETURN(10)};
static struct sock_filter endless[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0}};
static struct sock_filter text_x[] = {{BPF_LD | BPF_B | BPF_ABS, 0, 0, 8}, IF('x')};
static struct sock_filter length_13[] = {{BPF_LD | BPF_W | BPF_LEN, 0, 0, 0}, IF(13)};
static struct sock_filter of_udp[] = {{BPF_LD | BPF_B | BPF_ABS, 0, 0, (uint32_t)(SKF_NET_OFF + 9)}, IF(17)};
static struct sock_filter digit[] = {{BPF_LD | BPF_B | BPF_ABS, 0, 0, 0}, {BPF_ALU | BPF_SUB | BPF_K, 0, 0, '0'}, {BPF_RET | BPF_A, 0, 0, 0}};
static struct sock_filter second[] = {RETURN(2)}, beyond[] = {RETURN(9)};

#define PROGRAM(name) {#name, {sizeof name / sizeof *name, name}}
static struct {
    const char *name;
    struct sock_fprog program;
} programs[] = {PROGRAM(none), PROGRAM(all), PROGRAM(three), PROGRAM(ten), PROGRAM(endless), PROGRAM(text_x), PROGRAM(length_13), PROGRAM(of_udp)};
static struct sock_fprog choose_digit = {3, digit}, choose_second = {1, second}, choose_beyond = {1, beyond};

static socklen_t loopback(int family, struct sockaddr_storage *at) {
    memset(at, 0, sizeof *at);
    at->ss_family = family;
    if (family == AF_INET) {
        ((struct sockaddr_in *)at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return sizeof(struct sockaddr_in);
    }
    ((struct sockaddr_in6 *)at)->sin6_addr = in6addr_loopback;
    return sizeof(struct sockaddr_in6);
}

static void connected(int family, int type, int ends[2]) {
    struct sockaddr_storage at;
    socklen_t length = loopback(family, &at);
    int there = socket(family, type, 0);
    bind(there, (struct sockaddr *)&at, length);
    getsockname(there, (struct sockaddr *)&at, &length);
    if (type == SOCK_STREAM) {
        listen(there, 1);
    }
    ends[0] = socket(family, type, 0);
    if (connect(ends[0], (struct sockaddr *)&at, length) != 0) {
        puts("no connection");
    }
    ends[1] = there;
    if (type == SOCK_STREAM) {
        ends[1] = accept(there, NULL, NULL);
        close(there);
    }
}

static int set(int fd, int option, const void *value, socklen_t length) { return setsockopt(fd, SOL_SOCKET, option, value, length) == 0 ? 0 : errno; }
static int set_int(int fd, int option, int value) { return set(fd, option, &value, sizeof value); }
static int get_int(int fd, int option) {
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &length) == 0 ? value : -errno;
}

static void told(int fd, socklen_t room) {
    struct sock_filter got[8];
    memset(got, 0, sizeof got);
    socklen_t count = room;
    int result = getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, room ? got : NULL, &count);
    printf(" room %u: %s, %u instructions, the first %x", room, result == 0 ? "yes" : strerror(errno), count, got[0].code);
}

static void each_program(int family, int type) {
    static const char *texts[] = {"hello", "xyz", "", "abcdefghijklmnop"};
    for (unsigned at = 0; at < sizeof programs / sizeof *programs; at++) {
        int ends[2];
        /* (A stream without its segments would take minutes.) */
        if (type == SOCK_STREAM && programs[at].program.filter != all && programs[at].program.filter != endless) {
            continue;
        }
        connected(family, type, ends);
        int result = set(ends[1], SO_ATTACH_FILTER, &programs[at].program, sizeof programs[at].program);
        printf("%d %d %s: %s;", family, type, programs[at].name, strerror(result));
        for (int text = 0; text < 4; text++) {
            char bytes[100];
            if (type == SOCK_STREAM && text == 2) {
                continue;
            }
            send(ends[0], texts[text], strlen(texts[text]), 0);
            printf(" %zd", recv(ends[1], bytes, sizeof bytes, type == SOCK_STREAM ? 0 : MSG_DONTWAIT));
        }
        told(ends[1], 0);
        told(ends[1], 8);
        told(ends[1], 1);
        printf("; %s,", strerror(set_int(ends[1], SO_DETACH_FILTER, 0)));
        printf(" %s\n", strerror(set_int(ends[1], SO_DETACH_FILTER, 0)));
        close(ends[0]);
        close(ends[1]);
    }
}

static void locked(int family, int type) {
    int ends[2];
    connected(family, type, ends);
    struct sock_fprog nothing = {0, all}, nowhere = {1, NULL}, many = {5000, all}, *right = &programs[1].program;
    printf("wrong: %d", set(ends[0], SO_ATTACH_FILTER, &nothing, sizeof nothing));
    printf(" %d", set(ends[0], SO_ATTACH_FILTER, &nowhere, sizeof nowhere));
    printf(" %d", set(ends[0], SO_ATTACH_FILTER, &many, sizeof many));
    printf(" %d", set(ends[0], SO_ATTACH_FILTER, right, 4));
    printf(" %d", set(ends[0], SO_ATTACH_FILTER, right, sizeof *right + 8));
    printf(" %d\n", set(ends[0], SO_ATTACH_FILTER, NULL, sizeof *right));
    printf("locked: %d", get_int(ends[1], SO_LOCK_FILTER));
    printf(" %d", set_int(ends[1], SO_LOCK_FILTER, 0));
    printf(" %d", set_int(ends[1], SO_LOCK_FILTER, 1));
    printf(" %d", set_int(ends[1], SO_LOCK_FILTER, 0));
    printf(" %d", set_int(ends[1], SO_LOCK_FILTER, 5));
    printf(" %d;", get_int(ends[1], SO_LOCK_FILTER));
    printf(" %d", set(ends[1], SO_ATTACH_FILTER, right, sizeof *right));
    printf(" %d\n", set_int(ends[1], SO_DETACH_FILTER, 0));
    close(ends[0]);
    close(ends[1]);
}

/* Which of four sockets gets what six others send. */
static void chosen(int family, int type) {
    struct sockaddr_storage at;
    socklen_t length = loopback(family, &at);
    int sockets[4];
    for (int i = 0; i < 4; i++) {
        sockets[i] = socket(family, type | SOCK_NONBLOCK, 0);
        if (i == 0) {
            printf("chooser of one alone: %d", set(sockets[i], SO_ATTACH_REUSEPORT_CBPF, &choose_digit, sizeof choose_digit));
            printf(", none: %d", set_int(sockets[i], SO_DETACH_REUSEPORT_BPF, 0));
        }
        set_int(sockets[i], SO_REUSEPORT, 1);
        if (i == 0) {
            printf(", before bind: %d", set(sockets[i], SO_ATTACH_REUSEPORT_CBPF, &choose_digit, sizeof choose_digit));
        }
        bind(sockets[i], (struct sockaddr *)&at, length);
        if (i == 0) {
            getsockname(sockets[i], (struct sockaddr *)&at, &length);
        }
        if (type == SOCK_STREAM) {
            listen(sockets[i], 10);
        }
    }
    puts("");
    struct sock_fprog *choosers[] = {type == SOCK_STREAM ? &choose_second : &choose_digit, &choose_second, &choose_beyond};
    for (int round = 0; round < 3; round++) {
        printf("round %d, %d:", round, round == 0 && type == SOCK_DGRAM ? 0 : set(sockets[3], SO_ATTACH_REUSEPORT_CBPF, choosers[round], sizeof(struct sock_fprog)));
        for (int j = 0; j < 6; j++) {
            char text[2] = {(char)('0' + j % 4), 'z'};
            int who = -1, from = socket(family, type, 0);
            connect(from, (struct sockaddr *)&at, length);
            if (type == SOCK_DGRAM) {
                send(from, text, sizeof text, 0);
            }
            for (int tries = 0; tries < 2000 && who < 0; tries++) {
                for (int i = 0; i < 4; i++) {
                    int new = type == SOCK_STREAM ? accept(sockets[i], NULL, NULL) : -1;
                    if (new >= 0) {
                        close(new);
                    }
                    if (new >= 0 || (type == SOCK_DGRAM && recv(sockets[i], text, sizeof text, 0) > 0)) {
                        who = i;
                    }
                }
                if (who < 0) {
                    usleep(1000);
                }
            }
            /* (Who gets what no socket was chosen for is the system's.) */
            printf(" %d", round == 2 ? who >= 0 : who);
            close(from);
        }
        puts("");
    }
    printf("detached: %d", set_int(sockets[2], SO_DETACH_REUSEPORT_BPF, 0));
    printf(" %d\n", set_int(sockets[2], SO_DETACH_REUSEPORT_BPF, 0));
    for (int i = 0; i < 4; i++) {
        close(sockets[i]);
    }
}

int main(void) {
    static const int families[] = {AF_INET, AF_INET6}, types[] = {SOCK_DGRAM, SOCK_STREAM};
    for (int family = 0; family < 2; family++) {
        for (int type = 0; type < 2; type++) {
            each_program(families[family], types[type]);
            locked(families[family], types[type]);
            chosen(families[family], types[type]);
        }
    }
    return 0;
}
