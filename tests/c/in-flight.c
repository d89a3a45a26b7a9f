/* A child that is made beside other threads has the descriptors of its parent and nothing else: not what another thread was just being given, giving up or using. The child gives up its descriptors (close_range,
   close-on-exec) and lives on; so the other end of each pipe must hear of it at once. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static char *self;

enum how { FORK, SPAWN };

/* A child that has no descriptor from 3 on and stays. */
static pid_t child(enum how how) {
    pid_t pid = -1;
    if (how == SPAWN) {
        char *arguments[] = {self, "--stay", NULL};
        return posix_spawn(&pid, self, NULL, NULL, arguments, environ) == 0 ? pid : -1;
    }
    pid = fork();
    if (pid == 0) {
        syscall(SYS_close_range, 3u, ~0u, 0u);
        for (;;) {
            pause();
        }
    }
    return pid;
}

static void end(pid_t pid) {
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

/* Does the end of the pipe come? */
static int ends(int fd) {
    struct pollfd one = {.fd = fd, .events = POLLIN};
    char c;
    return poll(&one, 1, 1000) == 1 && read(fd, &c, 1) == 0;
}

static int channel[2], answers[2];

static int pass(int fd) {
    char c = 'x', room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec piece = {&c, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    return sendmsg(channel[0], &message, 0) == 1;
}

/* Closes what it is given. */
static void *receiver(void *unused) {
    for (;;) {
        char c, room[CMSG_SPACE(sizeof(int))];
        struct iovec piece = {&c, 1};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        int fd;
        if (recvmsg(channel[1], &message, MSG_CMSG_CLOEXEC) != 1) {
            return unused;
        }
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        if (!head) {
            return unused;
        }
        memcpy(&fd, CMSG_DATA(head), sizeof fd);
        close(fd);
        if (write(answers[1], &c, 1) != 1) {
            return unused;
        }
    }
}

/* The write end of a pipe is on its way to a thread that waits for it. */
static int received(enum how how) {
    int p[2], good;
    char c;
    if (pipe2(p, O_CLOEXEC) < 0 || !pass(p[1])) {
        return 0;
    }
    close(p[1]);
    pid_t pid = child(how);
    good = pid > 0 && read(answers[0], &c, 1) == 1 && ends(p[0]);
    end(pid);
    close(p[0]);
    return good;
}

static void *reader(void *argument) {
    int fd = *(int *)argument;
    char c;
    long n = read(fd, &c, 1);
    close(fd);
    return (void *)n;
}

/* A thread waits in read: when it has been woken and has closed the read end, nobody has that. */
static int used(enum how how) {
    int p[2], good;
    pthread_t thread;
    void *n;
    if (pipe2(p, O_CLOEXEC) < 0 || pthread_create(&thread, NULL, reader, &p[0]) != 0) {
        return 0;
    }
    nanosleep(&(struct timespec){0, 5000000}, NULL);
    pid_t pid = child(how);
    /* The child has closed its own by now. */
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    good = pid > 0 && write(p[1], "x", 1) == 1 && pthread_join(thread, &n) == 0 && n == (void *)1;
    good = good && write(p[1], "x", 1) < 0 && errno == EPIPE;
    end(pid);
    close(p[1]);
    return good;
}

static volatile int stop;

/* Opens, duplicates and closes for as long as children are made; the end must come each time. */
static void *busy(void *unused) {
    long late = 0;
    (void)unused;
    while (!stop) {
        int p[2];
        if (pipe2(p, O_CLOEXEC) < 0) {
            late++;
            continue;
        }
        int copy = fcntl(p[1], F_DUPFD_CLOEXEC, 0), over = open("/dev/null", O_RDONLY | O_CLOEXEC);
        dup3(copy, over, O_CLOEXEC);
        close(copy);
        close(p[1]);
        close(over);
        late += !ends(p[0]);
        close(p[0]);
    }
    return (void *)late;
}

static int crowd(enum how how, int children) {
    enum { THREADS = 3, ALIVE = 8 };
    pthread_t threads[THREADS];
    pid_t alive[ALIVE] = {0};
    long late = 0;
    stop = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, busy, NULL);
    }
    for (int i = 0; i < children; i++) {
        /* Where its thread is when the child comes is left to chance. */
        nanosleep(&(struct timespec){0, 100000 + i * 37777 % 900000}, NULL);
        end(alive[i % ALIVE]);
        alive[i % ALIVE] = child(how);
        late += alive[i % ALIVE] < 0;
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++) {
        void *of_thread;
        pthread_join(threads[i], &of_thread);
        late += (long)of_thread;
    }
    for (int i = 0; i < ALIVE; i++) {
        end(alive[i]);
    }
    return late == 0;
}

static int times(int (*round)(enum how), enum how how, int count) {
    int good = 0;
    for (int i = 0; i < count; i++) {
        good += round(how);
    }
    return good;
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc > 1) {
        for (;;) {
            pause();
        }
    }
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IONBF, 0);
    pthread_t thread;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) < 0 || pipe2(answers, O_CLOEXEC) < 0 || pthread_create(&thread, NULL, receiver, NULL) != 0) {
        puts("no thread");
        return 1;
    }
    printf("received beside fork: %d of 20\n", times(received, FORK, 20));
    printf("received beside posix_spawn: %d of 20\n", times(received, SPAWN, 20));
    printf("used beside fork: %d of 5\n", times(used, FORK, 5));
    printf("used beside posix_spawn: %d of 5\n", times(used, SPAWN, 5));
    printf("crowd beside fork: %s\n", crowd(FORK, 200) ? "in time" : "late");
    printf("crowd beside posix_spawn: %s\n", crowd(SPAWN, 200) ? "in time" : "late");
    return 0;
}
