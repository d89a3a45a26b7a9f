/* One byte of urgent data on local streams (MSG_OOB): the mark, SO_OOBINLINE, poll(2), and what a later one makes of it. What comes right behind one that was
   taken at the mark is not read here: Linux 6.1 says EAGAIN once. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SIOCATMARK
#define SIOCATMARK 0x8905
#endif

static int in, out, passed, taken;

static void say(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
    fflush(stdout);
}

static void state(void) {
    struct pollfd p = {in, POLLIN | POLLPRI, 0};
    int mark = -1, waits = -1;
    poll(&p, 1, 0);
    ioctl(in, SIOCATMARK, &mark);
    ioctl(in, FIONREAD, &waits);
    printf("    poll %#x", p.revents);
    /* (Of the place of a byte that was taken Linux says one or the other, and it counts one that was passed over as one that waits.) */
    if (!taken)
        printf(" mark %d", mark);
    if (!passed)
        printf(" waits %d", waits);
    printf("\n");
}

static void put(const char *text, int flags) {
    printf("send \"%s\"%s", text, flags & MSG_OOB ? " urgent" : "");
    say("", send(out, text, strlen(text), flags | MSG_NOSIGNAL));
    state();
}

static void take(size_t room, int flags) {
    char text[64] = {0};
    struct iovec piece = {text, room};
    struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1};
    long count = recvmsg(in, &m, flags | MSG_DONTWAIT);
    printf("%s%s%zu: ", flags & MSG_PEEK ? "peek " : "take ", flags & MSG_OOB ? "urgent " : "", room);
    if (count < 0)
        printf("%s\n", strerror(errno));
    else
        printf("%ld \"%s\" flags %#x\n", count, text, m.msg_flags);
    state();
}

static void pair(const char *what, int kind) {
    int both[2];
    if (out)
        close(in), close(out);
    socketpair(AF_UNIX, kind, 0, both);
    passed = taken = 0;
    in = both[0], out = both[1];
    printf("-- %s\n", what);
}

int main(void) {
    pair("none", SOCK_STREAM);
    state();
    take(1, MSG_OOB);
    pair("taken at once", SOCK_STREAM);
    put("abc", MSG_OOB);
    take(10, MSG_OOB | MSG_PEEK);
    take(10, MSG_OOB);
    take(10, MSG_OOB);
    put("de", 0);
    taken = 1;
    take(10, 0);
    take(10, 0);
    take(10, 0);
    pair("to the mark and beyond", SOCK_STREAM);
    put("abc", MSG_OOB);
    put("de", 0);
    take(1, 0);
    take(10, MSG_PEEK);
    take(10, 0);
    take(10, MSG_PEEK);
    take(1, MSG_OOB | MSG_PEEK);
    passed = 1;
    take(10, 0);
    take(1, MSG_OOB);
    pair("at the mark", SOCK_STREAM);
    put("abc", MSG_OOB);
    put("de", 0);
    take(10, 0);
    taken = 1;
    take(1, MSG_OOB);
    pair("alone", SOCK_STREAM);
    put("x", MSG_OOB);
    passed = 1;
    take(10, 0);
    put("yz", 0);
    take(10, 0);
    pair("a later one", SOCK_STREAM);
    put("ab", MSG_OOB);
    put("cd", MSG_OOB);
    put("e", 0);
    take(10, 0);
    taken = 1;
    take(10, MSG_OOB);
    pair("inline", SOCK_STREAM);
    int one = 1;
    setsockopt(in, SOL_SOCKET, SO_OOBINLINE, &one, sizeof one);
    put("abc", MSG_OOB);
    put("de", 0);
    take(1, MSG_OOB);
    take(10, 0);
    take(10, 0);
    pair("read(2)", SOCK_STREAM);
    passed = 1;
    put("abc", MSG_OOB);
    put("de", 0);
    char text[16] = {0};
    say("read", read(in, text, 10));
    printf("%s\n", text);
    say("read", read(in, text, 1));
    printf("%.1s\n", text);
    state();
    pair("all of it", SOCK_STREAM);
    passed = 1;
    put("ab", MSG_OOB);
    put("cd", 0);
    say("recv", recv(in, text, 1, MSG_WAITALL));
    say("recv", recv(in, text, 2, MSG_WAITALL));
    state();
    pair("the sender goes", SOCK_STREAM);
    put("ab", MSG_OOB);
    shutdown(out, SHUT_WR);
    take(10, 0);
    taken = 1;
    take(1, MSG_OOB);
    pair("nothing", SOCK_STREAM);
    say("send", send(out, "", 0, MSG_OOB));
    pair("datagrams", SOCK_DGRAM);
    say("send", send(out, "a", 1, MSG_OOB));
    say("recv", recv(in, text, 1, MSG_OOB | MSG_DONTWAIT));
    pair("packets", SOCK_SEQPACKET);
    say("send", send(out, "a", 1, MSG_OOB));
    say("recv", recv(in, text, 1, MSG_OOB | MSG_DONTWAIT));
    return 0;
}
