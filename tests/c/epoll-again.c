/* Files that are taken out of a set and added again: with what happened in between, in other ways, by a child, after exec, while somebody waits; sets of nine files in turn; poll with changing files. cairn-test: cores=4 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int set;

static int add(int fd, uint32_t events) {
    struct epoll_event e = {.events = events, .data.u64 = fd};
    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) == 0 ? 0 : errno;
}

static int take_out(int fd) { return epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL) == 0 ? 0 : errno; }

/* What one wait tells of a file: its bits, 0 for nothing. */
static unsigned look(int fd) {
    struct epoll_event all[64];
    int count = epoll_wait(set, all, 64, 0);
    unsigned bits = 0;
    for (int i = 0; i < count; i++) {
        if ((int)all[i].data.u64 == fd) {
            bits |= all[i].events;
        }
    }
    return bits;
}

static void put(int fd, const char *what, size_t length) {
    if (write(fd, what, length) != (ssize_t)length) {
        printf("write: %d\n", errno);
    }
}

static void take(int fd) {
    char buffer[64];
    if (read(fd, buffer, sizeof buffer) < 0) {
        printf("read: %d\n", errno);
    }
}

/* It is added, and looked at twice. */
static void adds(const char *what, int fd, uint32_t events) {
    int error = add(fd, events);
    unsigned first = look(fd), second = look(fd);
    printf(" %s %d %#x %#x,", what, error, first, second);
}

/* It is taken out, and looked at. */
static void takes_out(int fd) {
    int error = take_out(fd);
    unsigned bits = look(fd);
    if (error != 0 || bits != 0) {
        printf(" taken out: %d %#x,", error, bits);
    }
}

/* One file through all that may happen between taking out and adding. */
static void round_of(const char *name, int fd, int other, size_t length) {
    char word[8] = {1};
    printf("%s:", name);
    adds("added", fd, EPOLLIN), takes_out(fd);
    adds("again", fd, EPOLLIN);
    put(other, word, length);
    printf(" written %#x,", look(fd));
    takes_out(fd);
    adds("full", fd, EPOLLIN), takes_out(fd);
    take(fd);
    adds("read between", fd, EPOLLIN), takes_out(fd);
    put(other, word, length);
    adds("written between", fd, EPOLLIN), takes_out(fd);
    adds("edge", fd, EPOLLIN | EPOLLET), takes_out(fd);
    adds("edge again", fd, EPOLLIN | EPOLLET), takes_out(fd);
    adds("once", fd, EPOLLIN | EPOLLONESHOT), takes_out(fd);
    adds("once again", fd, EPOLLIN | EPOLLONESHOT), takes_out(fd);
    adds("for output", fd, EPOLLOUT), takes_out(fd);
    adds("for nothing", fd, 0), takes_out(fd);
    adds("added", fd, EPOLLIN), adds("twice", fd, EPOLLIN), takes_out(fd);
    printf(" out twice %d,", take_out(fd));
    printf(" changed %d\n", epoll_ctl(set, EPOLL_CTL_MOD, fd, &(struct epoll_event){.events = EPOLLIN}) == 0 ? 0 : errno);
    take(fd);
}

static void *write_later(void *fd) {
    usleep(30000);
    put(*(int *)fd, "x", 1);
    return NULL;
}

static void *add_later(void *fd) {
    usleep(30000);
    add(*(int *)fd, EPOLLIN);
    return NULL;
}

static void waits(int fd, int other) {
    struct epoll_event event;
    pthread_t thread;
    add(fd, EPOLLIN), take_out(fd), add(fd, EPOLLIN);
    pthread_create(&thread, NULL, write_later, &other);
    printf("written while waiting: %d\n", epoll_wait(set, &event, 1, 5000));
    pthread_join(thread, NULL);
    take_out(fd);
    pthread_create(&thread, NULL, add_later, &fd);
    printf("added again while waiting: %d\n", epoll_wait(set, &event, 1, 5000));
    pthread_join(thread, NULL);
    take_out(fd);
    take(fd);
}

static void by_a_child(int fd, int other) {
    add(fd, EPOLLIN), take_out(fd);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        adds("child adds again", fd, EPOLLIN);
        put(other, "x", 1);
        printf(" written %#x\n", look(fd));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    printf("the parent sees it: %#x,", look(fd));
    adds("adds", fd, EPOLLIN), takes_out(fd);
    take(fd);
    adds("adds again", fd, EPOLLIN);
    put(other, "x", 1);
    printf(" written %#x\n", look(fd));
    take_out(fd);
    take(fd);
}

/* The number of a closed file is another one's. */
static void another_file(void) {
    int a[2], b[2];
    if (pipe(a) < 0 || pipe(b) < 0) {
        return;
    }
    put(b[1], "x", 1);
    add(a[0], EPOLLIN), take_out(a[0]);
    dup2(b[0], a[0]);
    adds("another file with its number", a[0], EPOLLIN), takes_out(a[0]);
    int copy = dup(a[0]);
    adds("a copy", copy, EPOLLIN), takes_out(copy);
    take(b[0]);
    adds("read", copy, EPOLLIN), takes_out(copy);
    printf("\n");
    close(copy), close(a[0]), close(a[1]), close(b[0]), close(b[1]);
}

static void hang_up(void) {
    int p[2];
    if (pipe(p) < 0) {
        return;
    }
    add(p[0], EPOLLIN), take_out(p[0]);
    close(p[1]);
    usleep(20000);
    adds("hung up between", p[0], EPOLLIN), takes_out(p[0]);
    printf("\n");
    close(p[0]);
}

/* More than a set keeps in mind. */
static void many(int count) {
    int pipes[40][2], wrong = 0;
    for (int i = 0; i < count; i++) {
        if (pipe(pipes[i]) < 0) {
            return;
        }
    }
    for (int turn = 0; turn < 50; turn++) {
        for (int i = 0; i < count; i++) {
            wrong += add(pipes[i][0], EPOLLIN) != 0;
            int full = (turn + i) % 3 == 0;
            if (full) {
                put(pipes[i][1], "x", 1);
            }
            wrong += look(pipes[i][0]) != (full ? EPOLLIN : 0);
            if (full) {
                take(pipes[i][0]);
            }
            wrong += take_out(pipes[i][0]) != 0;
        }
    }
    for (int i = 0; i < count; i++) {
        close(pipes[i][0]), close(pipes[i][1]);
    }
    printf("%d in turn: %d wrong\n", count, wrong);
}

static void signals(void) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigprocmask(SIG_BLOCK, &one, NULL);
    int fd = signalfd(-1, &one, 0);
    adds("signals", fd, EPOLLIN), takes_out(fd);
    raise(SIGUSR1);
    adds("raised", fd, EPOLLIN), takes_out(fd);
    struct signalfd_siginfo info;
    printf(" read %d,", (int)(read(fd, &info, sizeof info) == sizeof info));
    adds("again", fd, EPOLLIN);
    raise(SIGUSR1);
    printf(" %#x\n", look(fd));
    if (read(fd, &info, sizeof info) != sizeof info) {
        printf("read\n");
    }
    take_out(fd);
    close(fd);
}

/* Files come and go between calls of poll. */
static void polls(int fd, int other) {
    int second = eventfd(0, 0), wrong = 0;
    uint64_t value = 1;
    for (int turn = 0; turn < 60; turn++) {
        int first_full = turn % 2, second_full = turn / 2 % 2;
        if (first_full) {
            put(other, "x", 1);
        }
        if (second_full) {
            put(second, (char *)&value, 8);
        }
        struct pollfd both[] = {{fd, POLLIN, 0}, {second, turn % 5 ? POLLIN : POLLIN | POLLOUT, 0}};
        int alone = turn % 3 == 0;
        int count = poll(both, alone ? 1 : 2, 0);
        int expected = first_full + (alone ? 0 : second_full || turn % 5 == 0);
        wrong += count != expected || (both[0].revents != (first_full ? POLLIN : 0));
        if (first_full) {
            take(fd);
        }
        if (second_full) {
            take(second);
        }
    }
    close(second);
    printf("polls: %d wrong\n", wrong);
}

int main(int argc, char **argv) {
    if (argc > 2) {
        // After exec, with the set and the files of before.
        set = atoi(argv[1]);
        int fd = atoi(argv[2]), other = atoi(argv[3]);
        adds("after exec", fd, EPOLLIN);
        put(other, "x", 1);
        printf(" written %#x,", look(fd));
        takes_out(fd);
        adds("again", fd, EPOLLIN);
        printf("\n");
        return 0;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    set = epoll_create1(0);
    int p[2], s[2], event = eventfd(0, EFD_NONBLOCK), timer = timerfd_create(CLOCK_MONOTONIC, 0);
    if (set < 0 || pipe(p) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0) {
        return 1;
    }
    round_of("pipe", p[0], p[1], 1);
    round_of("socket", s[0], s[1], 1);
    round_of("counter", event, event, 8);
    waits(p[0], p[1]);
    by_a_child(p[0], p[1]);
    another_file();
    hang_up();
    many(3);
    many(9);
    many(40);
    signals();
    struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
    add(timer, EPOLLIN), take_out(timer);
    timerfd_settime(timer, 0, &soon, NULL);
    usleep(30000);
    adds("timer", timer, EPOLLIN), takes_out(timer);
    printf("\n");
    polls(p[0], p[1]);
    add(p[0], EPOLLIN), take_out(p[0]);
    char numbers[3][12];
    snprintf(numbers[0], 12, "%d", set);
    snprintf(numbers[1], 12, "%d", p[0]);
    snprintf(numbers[2], 12, "%d", p[1]);
    execl("/proc/self/exe", argv[0], numbers[0], numbers[1], numbers[2], NULL);
    perror("exec");
    return 1;
}
