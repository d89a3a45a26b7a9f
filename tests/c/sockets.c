/* Local sockets: streams, datagrams and packets, names, credentials, descriptors that travel, what ends a wait, and what is refused. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
    fflush(stdout);
}

static void bytes(const char *what, const char *data, long count) {
    printf("%s: %ld %.*s\n", what, count, count > 0 ? (int)count : 0, data);
    fflush(stdout);
}

static char buffer[4096];

static void got(const char *what, int fd, int flags) {
    long count = recv(fd, buffer, sizeof buffer, flags);
    if (count < 0)
        say(what, count);
    else
        bytes(what, buffer, count);
}

static short ready(int fd) {
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    poll(&p, 1, 0);
    return p.revents;
}

static socklen_t path_name(struct sockaddr_un *a, const char *path) {
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    strcpy(a->sun_path, path);
    return offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1;
}

static socklen_t abstract_name(struct sockaddr_un *a, const char *name) {
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    memcpy(a->sun_path + 1, name, strlen(name));
    return offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name);
}

/* Send bytes with descriptors. */
static long pass(int fd, const char *data, const int *fds, int count, int flags) {
    static char control[CMSG_SPACE(300 * sizeof(int))];
    struct iovec piece = {(void *)data, strlen(data)};
    struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1};
    if (count) {
        m.msg_control = control;
        m.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    }
    return sendmsg(fd, &m, flags);
}

/* Receive at most so many bytes, with room for so many descriptors: tells everything. */
static int take(const char *what, int fd, size_t most, int room, int *fds, int flags) {
    static char control[CMSG_SPACE(300 * sizeof(int)) + 64];
    struct iovec piece = {buffer, most};
    struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control};
    m.msg_controllen = room ? CMSG_SPACE(room * sizeof(int)) : 0;
    if (room % 2)
        m.msg_controllen = CMSG_LEN(room * sizeof(int));
    long count = recvmsg(fd, &m, flags);
    if (count < 0) {
        say(what, count);
        return 0;
    }
    int found = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            found = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(fds, CMSG_DATA(c), found * sizeof(int));
        }
    printf("%s: %ld %.*s, %d descriptors, flags %x\n", what, count, (int)count, buffer, found, m.msg_flags);
    return found;
}

static void streams(void) {
    int p[2];
    say("pair", socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    say("send", send(p[0], "hello", 5, 0));
    say("send", send(p[0], " world", 6, 0));
    got("peek", p[1], MSG_PEEK);
    int waiting = 0;
    ioctl(p[1], FIONREAD, &waiting);
    say("waiting", waiting);
    got("whole", p[1], 0);
    got("nothing", p[1], MSG_DONTWAIT);
    say("ready", ready(p[1]));
    say("empty", send(p[0], "", 0, 0));
    say("ready", ready(p[1]));
    shutdown(p[0], SHUT_WR);
    say("after shutdown", send(p[0], "x", 1, MSG_NOSIGNAL));
    say("ready here", ready(p[0]));
    say("ready there", ready(p[1]));
    got("end", p[1], 0);
    say("other way", write(p[1], "back", 4));
    close(p[1]);
    say("ready after close", ready(p[0]));
    got("rest", p[0], 0);
    got("end", p[0], 0);
    signal(SIGPIPE, SIG_IGN);
    say("write", write(p[0], "x", 1));
    close(p[0]);
    /* Unread data resets. */
    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    write(p[0], "lost", 4);
    close(p[1]);
    got("reset", p[0], 0);
    got("then", p[0], 0);
    close(p[0]);
    /* All of it, from two writes. */
    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    if (fork() == 0) {
        write(p[0], "first ", 6);
        usleep(30000);
        write(p[0], "second", 6);
        _exit(0);
    }
    bytes("wait for all", buffer, recv(p[1], buffer, 12, MSG_WAITALL));
    wait(NULL);
    /* What ends a wait by time. */
    struct timeval t = {0, 50000};
    say("limit", setsockopt(p[1], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t));
    got("late", p[1], 0);
    say("late read", read(p[1], buffer, 1));
    t.tv_usec = 1000000;
    say("bad limit", setsockopt(p[1], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t));
    t.tv_usec = 50000;
    setsockopt(p[0], SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
    static char large[1 << 20];
    long sent = write(p[0], large, sizeof large);
    say("part", sent > 100000 && sent < 500000);
    say("nothing", send(p[0], "x", 1, 0));
    close(p[0]);
    close(p[1]);
}

static void messages(void) {
    for (int kind = SOCK_DGRAM;; kind = SOCK_SEQPACKET) {
        int p[2];
        say("pair", socketpair(AF_UNIX, kind, 0, p));
        say("send", send(p[0], "first", 5, 0));
        say("send", send(p[0], "", 0, 0));
        say("send", send(p[0], "second", 6, 0));
        bytes("cut", buffer, recv(p[1], buffer, 3, 0));
        say("empty", recv(p[1], buffer, 9, 0));
        bytes("peek", buffer, recv(p[1], buffer, 3, MSG_PEEK | MSG_TRUNC));
        say("length", recv(p[1], buffer, 3, MSG_TRUNC));
        static char large[300000];
        say("too long", send(p[0], large, sizeof large, 0));
        say("again", send(p[0], "again", 5, 0));
        int none[1];
        take("tells that it is cut", p[1], 2, 0, none, 0);
        close(p[1]);
        say("nobody", send(p[0], "x", 1, MSG_NOSIGNAL));
        say("still", send(p[0], "x", 1, MSG_NOSIGNAL));
        got("receive", p[0], MSG_DONTWAIT);
        say("ready", ready(p[0]));
        close(p[0]);
        if (kind == SOCK_SEQPACKET)
            return;
    }
}

static void names(void) {
    struct sockaddr_un a, b;
    socklen_t length = path_name(&a, "/tmp/sockets-name");
    int l = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    say("fresh", ready(l));
    say("listen without a name", listen(l, 1));
    say("accept", accept(l, NULL, NULL));
    say("nobody", connect(c, (void *)&a, length));
    say("bind", bind(l, (void *)&a, length));
    say("bind again", bind(l, (void *)&a, length));
    say("bind another", bind(c, (void *)&a, length));
    struct stat s;
    say("stat", stat("/tmp/sockets-name", &s));
    printf("mode %o\n", s.st_mode & S_IFMT);
    say("open", open("/tmp/sockets-name", O_RDONLY));
    say("not yet", connect(c, (void *)&a, length));
    say("listen", listen(l, 1));
    say("connect", connect(c, (void *)&a, length));
    say("twice", connect(c, (void *)&a, length));
    say("sent before", send(c, "early", 5, 0));
    int d[3];
    for (int i = 0; i < 3; i++) {
        d[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        say("backlog", connect(d[i], (void *)&a, length));
    }
    say("ready", ready(l));
    socklen_t room = sizeof b;
    int far = accept(l, (void *)&b, &room);
    say("accept", far >= 0);
    say("unnamed", room);
    got("early", far, 0);
    room = sizeof b;
    say("peer", getpeername(c, (void *)&b, &room));
    bytes("its name", b.sun_path, room - 3);
    room = sizeof b;
    say("own", getsockname(far, (void *)&b, &room));
    bytes("its name", b.sun_path, room - 3);
    room = sizeof b;
    say("no name", getsockname(c, (void *)&b, &room));
    say("length", room);
    struct ucred who;
    room = sizeof who;
    say("peer", getsockopt(far, SOL_SOCKET, SO_PEERCRED, &who, &room));
    printf("%d %d %d\n", who.pid == getpid(), who.uid == geteuid(), who.gid == getegid());
    int value;
    room = sizeof value;
    getsockopt(l, SOL_SOCKET, SO_ACCEPTCONN, &value, &room);
    say("listens", value);
    room = sizeof value;
    getsockopt(far, SOL_SOCKET, SO_TYPE, &value, &room);
    say("type", value);
    room = sizeof value;
    getsockopt(far, SOL_SOCKET, SO_DOMAIN, &value, &room);
    say("domain", value);
    int wrong = socket(AF_UNIX, SOCK_DGRAM, 0);
    say("wrong type", connect(wrong, (void *)&a, length));
    say("to a stream", sendto(far, "x", 1, 0, (void *)&a, length));
    close(wrong);
    close(l);
    say("ready", ready(d[0]));
    got("reset", d[0], 0);
    say("gone", connect(d[2], (void *)&a, length));
    unlink("/tmp/sockets-name");
    say("no name", connect(d[2], (void *)&a, length));
    for (int i = 0; i < 3; i++)
        close(d[i]);
    close(c);
    close(far);

    /* A name that is linked, moved, and replaced. */
    l = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(l, (void *)&a, length);
    listen(l, 5);
    link("/tmp/sockets-name", "/tmp/sockets-link");
    unlink("/tmp/sockets-name");
    rename("/tmp/sockets-link", "/tmp/sockets-moved");
    length = path_name(&a, "/tmp/sockets-moved");
    c = socket(AF_UNIX, SOCK_STREAM, 0);
    say("moved", connect(c, (void *)&a, length));
    close(c);
    close(open("/tmp/sockets-file", O_CREAT | O_WRONLY, 0600));
    rename("/tmp/sockets-file", "/tmp/sockets-moved");
    c = socket(AF_UNIX, SOCK_STREAM, 0);
    say("a file", connect(c, (void *)&a, length));
    unlink("/tmp/sockets-moved");
    close(l);

    /* Whoever may not write the node. */
    umask(0077);
    l = socket(AF_UNIX, SOCK_STREAM, 0);
    length = path_name(&a, "/tmp/sockets-mine");
    say("bind", bind(l, (void *)&a, length));
    listen(l, 5);
    if (fork() == 0) {
        setgid(1000);
        setuid(1000);
        say("another user", connect(c, (void *)&a, length));
        _exit(0);
    }
    wait(NULL);
    chmod("/tmp/sockets-mine", 0222);
    if (fork() == 0) {
        setgid(1000);
        setuid(1000);
        say("may", connect(c, (void *)&a, length));
        _exit(0);
    }
    wait(NULL);
    far = accept(l, NULL, NULL);
    room = sizeof who;
    getsockopt(far, SOL_SOCKET, SO_PEERCRED, &who, &room);
    printf("uid %d gid %d\n", who.uid, who.gid);
    umask(0022);
    unlink("/tmp/sockets-mine");
    close(l), close(c), close(far);

    /* Abstract names, and one that nobody has. */
    length = abstract_name(&a, "of-a-test");
    l = socket(AF_UNIX, SOCK_DGRAM, 0);
    say("bind", bind(l, (void *)&a, length));
    c = socket(AF_UNIX, SOCK_DGRAM, 0);
    say("in use", bind(c, (void *)&a, length));
    say("automatic", bind(c, (void *)&(sa_family_t){AF_UNIX}, sizeof(sa_family_t)));
    room = sizeof b;
    getsockname(c, (void *)&b, &room);
    say("its length", room);
    say("send to", sendto(c, "addressed", 9, 0, (void *)&a, length));
    room = sizeof b;
    say("receive", recvfrom(l, buffer, 100, 0, (void *)&b, &room));
    say("from", room);
    say("answer", sendto(l, "answer", 6, 0, (void *)&b, room));
    got("answered", c, 0);
    say("connect", connect(c, (void *)&a, length));
    say("send", send(c, "1", 1, 0));
    int third = socket(AF_UNIX, SOCK_DGRAM, 0);
    say("third", sendto(third, "2", 1, 0, (void *)&b, room));
    say("without", send(third, "2", 1, 0));
    int count = 0;
    while (send(c, "fill", 4, MSG_DONTWAIT) == 4)
        count++;
    say("filled", count);
    say("ready", ready(c) & POLLOUT);
    got("one", l, 0);
    say("ready", ready(c) & POLLOUT);
    say("nobody", connect(c, (void *)&(struct sockaddr_un){.sun_family = AF_UNSPEC}, sizeof(sa_family_t)));
    say("send", send(c, "x", 1, 0));
    close(l);
    say("refused", sendto(c, "x", 1, 0, (void *)&a, length));
    close(c);
    close(third);
    say("unknown family", socket(AF_UNIX, 77, 0));
    say("not a socket", bind(0, (void *)&a, length));
}

static void descriptors(void) {
    int p[2], q[2], fds[300];
    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    pipe(q);
    say("pass", pass(p[0], "a", &q[0], 1, 0));
    say("found", take("one", p[1], 100, 1, fds, 0));
    write(q[1], "through", 7);
    bytes("read", buffer, read(fds[0], buffer, 100));
    say("flags", fcntl(fds[0], F_GETFD));
    close(fds[0]);
    /* Bytes before go along, bytes behind do not. */
    send(p[0], "ab", 2, 0);
    pass(p[0], "cd", q, 2, 0);
    send(p[0], "ef", 2, 0);
    pass(p[0], "gh", q, 1, 0);
    take("peeked", p[1], 100, 2, fds, MSG_PEEK);
    close(fds[0]), close(fds[1]);
    take("together", p[1], 100, 2, fds, MSG_CMSG_CLOEXEC);
    say("flags", fcntl(fds[0], F_GETFD));
    close(fds[0]), close(fds[1]);
    take("behind", p[1], 100, 2, fds, 0);
    close(fds[0]);
    /* No room for all. */
    pass(p[0], "x", (int[]){q[0], q[1], q[0]}, 3, 0);
    take("cut", p[1], 100, 1, fds, 0);
    close(fds[0]);
    pass(p[0], "y", q, 2, 0);
    take("none", p[1], 100, 0, fds, 0);
    pass(p[0], "z", q, 2, 0);
    got("plain", p[1], 0);
    /* A file shares its position. */
    int file = open("/tmp/sockets-file", O_CREAT | O_RDWR | O_TRUNC, 0600);
    write(file, "0123456789", 10);
    lseek(file, 2, SEEK_SET);
    pass(p[0], "f", &file, 1, 0);
    if (fork() == 0) {
        take("file", p[1], 10, 1, fds, 0);
        bytes("read", buffer, read(fds[0], buffer, 3));
        struct stat s;
        fstat(fds[0], &s);
        printf("%o %ld\n", s.st_mode, (long)s.st_size);
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    say("position", lseek(file, 0, SEEK_CUR));
    unlink("/tmp/sockets-file");
    close(file);
    /* Many. */
    for (int i = 0; i < 253; i++)
        fds[i] = q[i % 2];
    say("most", pass(p[0], "many", fds, 253, 0));
    /* (musl has no room for so many: then nothing was sent.) */
    int found = take("all", p[1], 100, 254, fds, MSG_DONTWAIT);
    for (int i = 0; i < found; i++)
        close(fds[i]);
    for (int i = 0; i < 254; i++)
        fds[i] = q[0];
    say("too many", pass(p[0], "more", fds, 254, 0));
    say("bad", pass(p[0], "bad", (int[]){q[0], 999}, 2, 0));
    got("nothing came", p[1], MSG_DONTWAIT);
    /* The last end of a pipe is in a message: it is not closed. */
    int r[2];
    pipe(r);
    pass(p[0], "end", &r[1], 1, 0);
    close(r[1]);
    fcntl(r[0], F_SETFL, O_NONBLOCK);
    say("open still", read(r[0], buffer, 1));
    close(p[1]);
    say("closed", read(r[0], buffer, 1));
    close(p[0]);
    close(r[0]);
    /* Packets and datagrams. */
    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, p);
    pass(p[0], "packet", q, 2, 0);
    found = take("packet", p[1], 3, 2, fds, 0);
    close(fds[0]), close(fds[1]);
    /* A socket in itself. */
    say("itself", pass(p[0], "self", p, 2, 0));
    close(p[0]), close(p[1]);
    close(q[0]), close(q[1]);
}

static void credentials(void) {
    int p[2], on = 1;
    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    send(p[0], "before", 6, 0);
    setsockopt(p[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    send(p[0], "behind", 6, 0);
    if (fork() == 0) {
        setgid(1000);
        setuid(1000);
        send(p[0], "child", 5, 0);
        char control[CMSG_SPACE(sizeof(struct ucred))] = {0};
        struct iovec piece = {"lie", 3};
        struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_CREDENTIALS, c->cmsg_len = CMSG_LEN(sizeof(struct ucred));
        struct ucred lies[] = {{getpid(), 0, 1000}, {getpid(), 1000, 0}, {1, 1000, 1000}, {getpid(), 1000, 1000}};
        for (int i = 0; i < 4; i++) {
            memcpy(CMSG_DATA(c), &lies[i], sizeof lies[i]);
            say("says", sendmsg(p[0], &m, 0));
        }
        _exit(0);
    }
    wait(NULL);
    for (int i = 0; i < 3; i++) {
        char control[100];
        struct iovec piece = {buffer, 100};
        struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        long count = recvmsg(p[1], &m, MSG_DONTWAIT);
        bytes("with credentials", buffer, count);
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
            struct ucred who;
            memcpy(&who, CMSG_DATA(c), sizeof who);
            printf("type %d: pid %s uid %d gid %d\n", c->cmsg_type, who.pid == getpid() ? "own" : who.pid ? "other" : "none", who.uid, who.gid);
        }
        fflush(stdout);
    }
    close(p[0]), close(p[1]);
}

int main(void) {
    streams();
    messages();
    names();
    descriptors();
    credentials();
    return 0;
}
