/* Descriptors that are on their way count against the sender's RLIMIT_NOFILE, those of all of a user's processes together: ETOOMANYREFS. One message's own do not; who may do everything has no limit. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* So many copies of a descriptor in one message; -> 0 or the error. */
static int send_some(int socket, int fd, int count) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(64 * sizeof(int))];
    } control;
    struct iovec one = {"x", 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *it = CMSG_FIRSTHDR(&message);
    it->cmsg_level = SOL_SOCKET;
    it->cmsg_type = SCM_RIGHTS;
    it->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (int i = 0; i < count; i++) ((int *)CMSG_DATA(it))[i] = fd;
    return sendmsg(socket, &message, MSG_DONTWAIT) == 1 ? 0 : errno;
}
/* Take one message; what comes with it is closed. */
static int take(int socket) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(64 * sizeof(int))];
    } control;
    char byte;
    struct iovec one = {&byte, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(socket, &message, MSG_DONTWAIT) != 1) return -1;
    struct cmsghdr *it = CMSG_FIRSTHDR(&message);
    if (!it) return 0;
    int count = (it->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (int i = 0; i < count; i++) close(((int *)CMSG_DATA(it))[i]);
    return count;
}
static void limit(int most) {
    struct rlimit it;
    getrlimit(RLIMIT_NOFILE, &it);
    it.rlim_cur = most;
    setrlimit(RLIMIT_NOFILE, &it);
}
static void fill(const char *what, int socket, int fd, int count) {
    int sent = 0, error;
    while ((error = send_some(socket, fd, count)) == 0 && sent < 60) sent++;
    printf("%s: %d messages of %d, then %s\n", what, sent, count, strerror(error));
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    int ends[2], more[2], pipes[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    socketpair(AF_UNIX, SOCK_STREAM, 0, more);
    pipe(pipes);
    fflush(stdout);
    if (fork() == 0) {
        setresgid(4321, 4321, 4321);
        setresuid(4321, 4321, 4321);
        limit(20);
        fill("of 20", ends[0], pipes[0], 1);
        fill("another socket", more[0], pipes[0], 1);
        printf("took %d\n", take(ends[1]));
        fill("then", more[0], pipes[0], 1);
        limit(30);
        fill("of 30", ends[0], pipes[0], 1);
        int taken = 0;
        while (take(ends[1]) == 1 || take(more[1]) == 1) taken++;
        printf("taken %d\n", taken);
        limit(20);
        fill("many at once", ends[0], pipes[0], 40);
        if (fork() == 0) {
            printf("a child: %s\n", strerror(send_some(more[0], pipes[0], 1)));
            fflush(stdout);
            _exit(0);
        }
        wait(NULL);
        printf("took %d\n", take(ends[1]));
        printf("%s\n", strerror(send_some(more[0], pipes[0], 1)));
        _exit(0);
    }
    wait(NULL);
    while (take(ends[1]) >= 0 || take(more[1]) >= 0) {
    }
    limit(20);
    fill("of user 0", ends[0], pipes[0], 40);
    return 0;
}
