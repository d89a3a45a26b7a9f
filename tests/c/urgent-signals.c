/* SIGURG for who owns a stream (F_SETOWN, SIOCSPGRP, FIOSETOWN), and what urgent bytes do to poll, FIONREAD, SIOCATMARK and reads with SO_OOBINLINE. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef FIOSETOWN
#define FIOSETOWN 0x8901
#endif
#ifndef SIOCSPGRP
#define SIOCSPGRP 0x8902
#endif
#ifndef SIOCATMARK
#define SIOCATMARK 0x8905
#endif

static volatile int urgent;
static void on_urgent(int signal) {
    (void)signal;
    urgent++;
}

static void connected(int family, int ends[2]) {
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr *at = family == AF_INET ? (struct sockaddr *)&four : (struct sockaddr *)&six;
    socklen_t length = family == AF_INET ? sizeof four : sizeof six;
    if (family == AF_UNIX) {
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        return;
    }
    int listener = socket(family, SOCK_STREAM, 0);
    bind(listener, at, length);
    getsockname(listener, at, &length);
    listen(listener, 1);
    ends[0] = socket(family, SOCK_STREAM, 0);
    connect(ends[0], at, length);
    ends[1] = accept(listener, NULL, NULL);
    close(listener);
}

static int ready(int fd) {
    struct pollfd one = {.fd = fd, .events = POLLIN | POLLPRI | POLLOUT};
    poll(&one, 1, 0);
    return one.revents;
}

/* A second for so many signals; a little more for those that must not come. */
static void signals(int wanted) {
    for (int i = 0; i < 1000 && urgent < wanted; i++) {
        usleep(1000);
    }
    usleep(5000);
    printf(" %d signals", urgent);
}

static void look(int fd, int local) {
    int mark = -1, count = -1;
    ioctl(fd, SIOCATMARK, &mark);
    printf("; mark %d", mark);
    if (!local) {
        ioctl(fd, FIONREAD, &count);
        printf(", %d bytes, poll %x", count, ready(fd));
    }
}

static void take(int fd, int flags, size_t most) {
    char bytes[20] = {0};
    ssize_t count = recv(fd, bytes, most, flags | MSG_DONTWAIT);
    printf("; %s '%s'", count < 0 ? strerror(errno) : "got", count > 0 ? bytes : "");
}

static void owned(int family, int way) {
    int ends[2], own = getpid(), result = 0;
    connected(family, ends);
    urgent = 0;
    switch (way) {
    case 0: result = fcntl(ends[1], F_SETOWN, own); break;
    case 1: result = ioctl(ends[1], FIOSETOWN, &own); break;
    case 2: result = ioctl(ends[1], SIOCSPGRP, &own); break;
    case 3: result = fcntl(ends[1], F_SETOWN, -getpgrp()); break;
    default: break;
    }
    printf("family %d way %d: %d", family, way, result);
    send(ends[0], "ab", 2, 0);
    signals(0);
    send(ends[0], "cd", 2, MSG_OOB);
    signals(way < 4);
    send(ends[0], "ef", 2, 0);
    signals(way < 4);
    send(ends[0], "g", 1, MSG_OOB);
    signals(way < 4 ? 2 : 0);
    if (way == 0) {
        fcntl(ends[1], F_SETOWN, 0);
        send(ends[0], "h", 1, MSG_OOB);
        signals(2);
    }
    puts("");
    close(ends[0]);
    close(ends[1]);
}

static void marks(int family, int in_line) {
    int ends[2], local = family == AF_UNIX;
    connected(family, ends);
    setsockopt(ends[1], SOL_SOCKET, SO_OOBINLINE, &in_line, sizeof in_line);
    printf("family %d in line %d", family, in_line);
    send(ends[0], "12", 2, 0);
    send(ends[0], "34", 2, MSG_OOB);
    send(ends[0], "56", 2, 0);
    look(ends[1], local);
    for (int i = 0; i < 3; i++) {
        take(ends[1], 0, 9);
        look(ends[1], local);
    }
    take(ends[1], MSG_OOB, 1);
    puts("");
    send(ends[0], "789", 3, MSG_OOB);
    send(ends[0], "AB", 2, MSG_OOB);
    look(ends[1], local);
    take(ends[1], MSG_OOB | MSG_PEEK, 1);
    take(ends[1], MSG_OOB, 1);
    for (int i = 0; i < 4; i++) {
        take(ends[1], 0, 2);
        look(ends[1], local);
    }
    puts("");
    close(ends[0]);
    close(ends[1]);
}

/* A child is told as well, if it is the owner. */
static void of_a_child(void) {
    int ends[2], status;
    connected(AF_INET, ends);
    pid_t child = fork();
    if (child == 0) {
        urgent = 0;
        fcntl(ends[1], F_SETOWN, getpid());
        send(ends[0], "x", 1, MSG_OOB);
        for (int i = 0; i < 1000 && urgent == 0; i++) {
            usleep(1000);
        }
        _exit(urgent);
    }
    urgent = 0;
    waitpid(child, &status, 0);
    printf("the child had %d, its parent %d\n", WEXITSTATUS(status), urgent);
    close(ends[0]);
    close(ends[1]);
}

int main(void) {
    static const int families[] = {AF_INET, AF_INET6, AF_UNIX};
    setpgid(0, 0);
    signal(SIGURG, on_urgent);
    for (int family = 0; family < 3; family++) {
        for (int way = 0; way < 5; way++) {
            owned(families[family], way);
        }
    }
    for (int family = 0; family < 2; family++) {
        marks(families[family], 0);
        marks(families[family], 1);
    }
    of_a_child();
    return 0;
}
