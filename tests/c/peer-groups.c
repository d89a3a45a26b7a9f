/* SO_PEERGROUPS: the groups of who connected, began to listen or made the pair, as they were then. SO_PEERPIDFD is newer. */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEERGROUPS 59
#define PEERPIDFD 77

static void show(const char *what, int fd, int room) {
    gid_t groups[64];
    socklen_t length = room;
    int result = getsockopt(fd, SOL_SOCKET, PEERGROUPS, groups, &length);
    printf("%s (%d): %d, %d:", what, room, result < 0 ? errno : 0, (int)length);
    for (unsigned at = 0; result == 0 && at < length / sizeof *groups; at++) {
        printf(" %d", (int)groups[at]);
    }
    printf("\n");
}

static void none(const char *what, int fd) {
    char bytes[64];
    socklen_t length = sizeof bytes;
    int result = getsockopt(fd, SOL_SOCKET, PEERPIDFD, bytes, &length);
    printf("%s: pidfd %d", what, result < 0 ? errno : 0);
    result = setsockopt(fd, SOL_SOCKET, PEERGROUPS, bytes, 4);
    printf(", set %d\n", result < 0 ? errno : 0);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    static const gid_t some[] = {7, 3, 5, 9}, one[] = {11}, others[] = {42, 41};
    int pair[2];
    setgroups(4, some);
    gid_t own[8];
    int count = getgroups(8, own);
    for (int each = 0; each < count; each++) {
        printf("%d%c", (int)own[each], each + 1 < count ? ' ' : '\n');
    }
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    for (int room = 0; room <= 24; room += 3) {
        show("pair", pair[0], room);
    }
    show("pair", pair[0], -1);
    setgroups(1, one);
    show("pair, later", pair[1], 64);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    show("pair of datagrams", pair[1], 64);
    struct sockaddr_un at = {AF_UNIX, "\0groups"};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&at, 9);
    show("bound", listener, 64);
    listen(listener, 5);
    show("listening", listener, 64);
    setgroups(0, NULL);
    int client = socket(AF_UNIX, SOCK_STREAM, 0);
    show("new", client, 64);
    show("new", client, 0);
    connect(client, (struct sockaddr *)&at, 9);
    setgroups(4, some);
    int peer = accept(listener, NULL, NULL);
    show("client", client, 64);
    show("server", peer, 64);
    show("server", peer, 0);
    listen(listener, 6);
    show("listening again", listener, 64);
    int far = socket(AF_UNIX, SOCK_DGRAM, 0), near = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un to = {AF_UNIX, "\0packets"};
    bind(far, (struct sockaddr *)&to, 10);
    connect(near, (struct sockaddr *)&to, 10);
    show("datagrams", near, 64);
    show("datagrams", far, 64);
    for (int family = 0; family < 2; family++) {
        int fd = socket(family ? AF_INET6 : AF_INET, family ? SOCK_DGRAM : SOCK_STREAM, 0);
        show("internet", fd, 64);
        show("internet", fd, -1);
        none("internet", fd);
    }
    none("local", peer);
    pid_t child = fork();
    if (child == 0) {
        setgroups(2, others);
        if (setgid(1000) || setuid(1000)) {
            return 1;
        }
        int own = socket(AF_UNIX, SOCK_STREAM, 0);
        connect(own, (struct sockaddr *)&at, 9);
        show("a user's", own, 64);
        return 0;
    }
    waitpid(child, NULL, 0);
    peer = accept(listener, NULL, NULL);
    show("who is dead", peer, 64);
    return 0;
}
