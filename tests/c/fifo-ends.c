/* What the ends of a FIFO are ready for before and after there is another end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

static void ready(const char *what, int fd, int wanted) {
    struct pollfd p = {fd, wanted, 0};
    int n = poll(&p, 1, 0);
    printf("%s: %d %x\n", what, n, p.revents);
}

static void reading(const char *what, int fd) {
    char b[8];
    ssize_t n = read(fd, b, sizeof b);
    printf("%s: %zd %s\n", what, n, n < 0 ? strerror(errno) : "");
}

int main(void) {
    mkfifo("fifo", 0600);
    printf("a writer without a reader: %d", open("fifo", O_WRONLY | O_NONBLOCK));
    printf(" %s\n", strerror(errno));
    int r = open("fifo", O_RDONLY | O_NONBLOCK);
    ready("a reader before there is a writer", r, POLLIN);
    reading("it reads", r);
    ready("and then", r, POLLIN);
    int set = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN};
    epoll_ctl(set, EPOLL_CTL_ADD, r, &e);
    printf("epoll: %d\n", epoll_wait(set, &e, 1, 0));
    int w = open("fifo", O_WRONLY | O_NONBLOCK);
    ready("with a writer", r, POLLIN);
    reading("it reads", r);
    ready("the writer", w, POLLOUT);
    write(w, "x", 1);
    ready("with text", r, POLLIN);
    close(w);
    ready("the writer is gone", r, POLLIN);
    reading("it reads", r);
    ready("the text is gone", r, POLLIN);
    printf("epoll: %d", epoll_wait(set, &e, 1, 0));
    printf(" %x\n", e.events);
    reading("it reads", r);
    int late = open("fifo", O_RDONLY | O_NONBLOCK);
    ready("a reader that came later", late, POLLIN);
    ready("the first", r, POLLIN);
    w = open("fifo", O_WRONLY);
    ready("both have a writer", late, POLLIN);
    ready("both have a writer", r, POLLIN);
    close(w);
    ready("both had one", late, POLLIN);
    ready("both had one", r, POLLIN);
    close(r);
    close(late);
    int both = open("fifo", O_RDWR);
    ready("an end of both kinds", both, POLLIN | POLLOUT);
    r = open("fifo", O_RDONLY);
    close(both);
    ready("a reader that found a writer", r, POLLIN);
    return 0;
}
