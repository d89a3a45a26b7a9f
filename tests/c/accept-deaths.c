/* A process that dies at each step of accept(2), at either end: what the other end is told, what is left of it, and that the port serves others. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int family;
static union {
    struct sockaddr plain;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} at;
static socklen_t length;

static const char *name(int number) {
    switch (number) {
    case 0:
        return "ok";
    case ECONNRESET:
        return "ECONNRESET";
    case ECONNREFUSED:
        return "ECONNREFUSED";
    case EPIPE:
        return "EPIPE";
    case ENOTCONN:
        return "ENOTCONN";
    case EAGAIN:
        return "EAGAIN";
    case EADDRINUSE:
        return "EADDRINUSE";
    }
    return strerror(number);
}

static int listening(int backlog) {
    int fd = socket(family, SOCK_STREAM, 0);
    memset(&at, 0, sizeof at);
    at.plain.sa_family = family;
    if (family == AF_INET) {
        at.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        at.v6.sin6_addr = in6addr_loopback;
    }
    length = family == AF_INET ? sizeof at.v4 : sizeof at.v6;
    bind(fd, &at.plain, length);
    listen(fd, backlog);
    getsockname(fd, &at.plain, &length);
    return fd;
}

static int joined(int *result) {
    int fd = socket(family, SOCK_STREAM, 0);
    *result = connect(fd, &at.plain, length) < 0 ? errno : 0;
    return fd;
}

static int come(int fd) {
    struct pollfd wait = {fd, POLLIN, 0};
    return poll(&wait, 1, 5000) == 1 ? wait.revents : -1;
}

/* What a read finds, after something came. */
static void seen(const char *what, int fd) {
    char bytes[16];
    printf("  %s: poll %x", what, come(fd));
    ssize_t count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0) {
        printf(", %s\n", name(errno));
    } else {
        printf(", %zd bytes\n", count);
    }
}

static void written(int fd) {
    ssize_t count = send(fd, "x", 1, MSG_NOSIGNAL);
    printf("  write: %s\n", count < 0 ? name(errno) : "ok");
}

/* A child runs until it is killed; it says by a byte that it has come so far. */
static int told[2];

static void ready(void) {
    if (write(told[1], "r", 1) != 1) {
        _exit(2);
    }
}

static void wait_ready(void) {
    char byte;
    if (read(told[0], &byte, 1) != 1) {
        printf("not ready\n");
    }
}

static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* Connections of the port that somebody would still have: those that are neither in TIME-WAIT nor listening. */
static int left(int port) {
    static const char *const files[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    char line[512];
    int count = 0;
    for (int each = 0; each < 2; each++) {
        FILE *file = fopen(files[each], "r");
        while (file && fgets(line, sizeof line, file)) {
            unsigned own, other, state;
            if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%x %x", &own, &other, &state) == 3) {
                count += (own == (unsigned)port || other == (unsigned)port) && state != 6;
            }
        }
        if (file) {
            fclose(file);
        }
    }
    return count;
}

static int port(void) {
    return ntohs(family == AF_INET ? at.v4.sin_port : at.v6.sin6_port);
}

static void nothing_left(void) {
    int count = 0;
    for (int tries = 0; tries < 100 && (count = left(port())) != 0; tries++) {
        usleep(20000);
    }
    printf("  left: %d\n", count);
}

/* The listener dies: before the handshake, after it, with text, in accept(2), with the connection, after it was read. */
static void listener_dies(int step) {
    static const char *const steps[] = {"nothing came", "handshake", "text", "in accept(2)", "accepted", "accepted, text", "read"};
    printf(" listener, %s\n", steps[step]);
    int fd = listening(5), result;
    pid_t child = fork();
    if (child == 0) {
        char byte;
        if (step < 3) {
            ready();
            pause();
        }
        if (step == 3) {
            ready();
            accept(fd, NULL, NULL);
            pause();
        }
        int peer = accept(fd, NULL, NULL);
        if (step == 6 && read(peer, &byte, 1) != 1) {
            _exit(3);
        }
        ready();
        pause();
        _exit(0);
    }
    close(fd);
    int client = -1;
    if (step != 0 && step != 3) {
        client = joined(&result);
        printf("  connect: %s\n", name(result));
        if (step != 1 && step != 4) {
            written(client);
        }
    }
    wait_ready();
    if (step == 3) {
        usleep(20000);
    }
    end(child);
    if (client >= 0) {
        seen("client", client);
        seen("again", client);
        written(client);
        close(client);
    }
    client = joined(&result);
    printf("  connect: %s\n", name(result));
    close(client);
    if (step != 6) {
        nothing_left();
    }
}

/* The client dies: after the handshake, with text, with a reset, before what it sent was let go, with unread text of the server. */
static void client_dies(int step) {
    static const char *const steps[] = {"handshake", "text", "reset", "text and reset", "corked", "accepted", "accepted, unread"};
    printf(" client, %s\n", steps[step]);
    int fd = listening(5);
    pid_t child = fork();
    if (child == 0) {
        int result, client = joined(&result);
        struct linger linger = {1, 0};
        if (step == 2 || step == 3) {
            setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        }
        if (step == 1 || step == 3) {
            send(client, "text", 4, 0);
        }
        if (step == 4) {
            send(client, "text", 4, MSG_MORE);
        }
        ready();
        pause();
        _exit(0);
    }
    wait_ready();
    int peer = -1;
    if (step >= 5) {
        peer = accept(fd, NULL, NULL);
        if (step == 6) {
            written(peer);
            usleep(20000);
        }
    }
    end(child);
    if (peer < 0) {
        printf("  listener: poll %x\n", come(fd));
        peer = accept(fd, NULL, NULL);
        printf("  accept: %s\n", peer < 0 ? name(errno) : "ok");
    }
    seen("peer", peer);
    struct sockaddr_storage other;
    socklen_t size = sizeof other;
    printf("  its name: %s\n", getpeername(peer, (struct sockaddr *)&other, &size) < 0 ? name(errno) : "ok");
    seen("again", peer);
    close(peer);
    close(fd);
    nothing_left();
}

/* Several wait in accept(2) of one listener, and some of them die: none of the connections is lost. */
static void some_die(void) {
    printf(" some of those in accept(2)\n");
    int fd = listening(20), result;
    pid_t children[6];
    for (int each = 0; each < 6; each++) {
        children[each] = fork();
        if (children[each] == 0) {
            for (;;) {
                int peer = accept(fd, NULL, NULL);
                if (send(peer, "hello", 5, MSG_NOSIGNAL) != 5) {
                    _exit(1);
                }
                close(peer);
            }
        }
    }
    usleep(20000);
    for (int each = 0; each < 6; each += 2) {
        end(children[each]);
    }
    int count = 0;
    for (int each = 0; each < 20; each++) {
        char bytes[8];
        int client = joined(&result);
        count += result == 0 && come(client) > 0 && recv(client, bytes, sizeof bytes, 0) == 5;
        close(client);
    }
    printf("  served: %d\n", count);
    for (int each = 1; each < 6; each += 2) {
        end(children[each]);
    }
    close(fd);
    nothing_left();
}

/* Many connections that nobody accepted end with their listener. */
static void many_wait(int many) {
    printf(" %d wait\n", many);
    int fd = listening(many), result, count = 0, resets = 0;
    int clients[256];
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    close(fd);
    for (int each = 0; each < many; each++) {
        clients[each] = joined(&result);
        count += result == 0;
        send(clients[each], "text", 4, MSG_NOSIGNAL);
    }
    end(child);
    for (int each = 0; each < many; each++) {
        char byte;
        come(clients[each]);
        resets += recv(clients[each], &byte, 1, MSG_DONTWAIT) < 0 && errno == ECONNRESET;
        close(clients[each]);
    }
    printf("  connected %d, reset %d\n", count, resets);
    int again = socket(family, SOCK_STREAM, 0);
    printf("  bind: %s\n", name(bind(again, &at.plain, length) < 0 ? errno : 0));
    close(again);
    nothing_left();
}

/* Both ends work, and one or the other is killed at any moment. */
static void any_moment(int rounds) {
    int bad = 0;
    for (int each = 0; each < rounds; each++) {
        int fd = listening(5);
        pid_t server = fork();
        if (server == 0) {
            for (;;) {
                char bytes[64];
                int peer = accept(fd, NULL, NULL);
                if (recv(peer, bytes, sizeof bytes, 0) > 0) {
                    send(peer, bytes, 10, MSG_NOSIGNAL);
                }
                close(peer);
            }
        }
        close(fd);
        pid_t client = fork();
        if (client == 0) {
            for (;;) {
                char bytes[64];
                int result, own = joined(&result);
                send(own, "0123456789", 10, MSG_NOSIGNAL);
                recv(own, bytes, sizeof bytes, 0);
                close(own);
            }
        }
        usleep(500 + each * 137 % 5000);
        end(each % 2 ? server : client);
        usleep(200);
        end(each % 2 ? client : server);
        for (int tries = 0; tries < 100 && left(port()) != 0; tries++) {
            usleep(20000);
        }
        bad += left(port());
    }
    printf(" at any moment: %d left\n", bad);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(100);
    if (pipe(told) < 0 || setuid(1000) < 0) {
        return 1;
    }
    static const int families[] = {AF_INET, AF_INET6};
    for (int each = 0; each < 2; each++) {
        family = families[each];
        printf("%s\n", each ? "IPv6" : "IPv4");
        for (int step = 0; step < 7; step++) {
            listener_dies(step);
        }
        for (int step = 0; step < 7; step++) {
            client_dies(step);
        }
        some_die();
        many_wait(100);
        any_moment(30);
    }
    return 0;
}
