/* Descriptors of processes: what they lead to, when they are ready, who may use them, and that a number that is another process's by now leads nowhere. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIDFD 3

static void say(const char *what, long result) {
    printf("%s: %s\n", what, result >= 0 ? "ok" : strerror(errno));
    fflush(stdout);
}

static int open_pid(pid_t pid, unsigned flags) { return syscall(434, pid, flags); }
static int kill_fd(int fd, int number, siginfo_t *info, unsigned flags) { return syscall(424, fd, number, info, flags); }

static int ready(int fd) {
    struct pollfd p = {fd, POLLIN | POLLOUT, 0};
    int n = poll(&p, 1, 0);
    return n < 0 ? -1 : p.revents;
}

static pid_t child(int code) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (code < 0) for (;;) pause();
        _exit(code);
    }
    return pid;
}

/* waitid itself: the C library need not know the kind. */
static void wait_fd(const char *what, int fd, int options) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    long result = syscall(SYS_waitid, PIDFD, fd, &info, options, NULL);
    if (result < 0) printf("%s: %s\n", what, strerror(errno));
    else printf("%s: code %d status %d%s\n", what, info.si_code, info.si_status, info.si_pid ? "" : " nobody");
}

static volatile int got, got_value, got_code;
static void handler(int number, siginfo_t *info, void *context) {
    (void)context;
    got = number, got_value = info->si_value.sival_int, got_code = info->si_code;
}

static void *thread(void *argument) {
    *(pid_t *)argument = gettid();
    pause();
    return NULL;
}

static void pass(int from, int fd) {
    char room[CMSG_SPACE(sizeof fd)] = {0}, byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    sendmsg(from, &message, 0);
}

static int take(int from) {
    char room[CMSG_SPACE(sizeof(int))] = {0}, byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int fd = -1;
    if (recvmsg(from, &message, 0) < 0) return -1;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

int main(int count, char **arguments) {
    if (count > 1) {
        /* After exec: the descriptor is still the same process's. */
        int fd = atoi(arguments[1]);
        printf("after exec: signal %d, wait", kill_fd(fd, 0, NULL, 0));
        wait_fd("", fd, WEXITED);
        return 0;
    }
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);

    say("no process", open_pid(0, 0));
    say("negative", open_pid(-1, 0));
    say("nobody", open_pid(32767, 0));
    say("flags", open_pid(getpid(), 1));
    pthread_t id;
    volatile pid_t tid = 0;
    pthread_create(&id, NULL, thread, (void *)&tid);
    while (!tid) usleep(1000);
    say("a thread", open_pid(tid, 0));

    int own = open_pid(getpid(), O_NONBLOCK);
    char link[64], text[64] = {0};
    snprintf(link, sizeof link, "/proc/self/fd/%d", own);
    if (readlink(link, text, sizeof text - 1) < 0) perror("readlink");
    struct stat st;
    fstat(own, &st);
    printf("own: %s, cloexec %d, nonblock %d, mode %o\n", text, fcntl(own, F_GETFD), !!(fcntl(own, F_GETFL) & O_NONBLOCK), st.st_mode & 07777);
    char byte;
    say("read", read(own, &byte, 1));
    say("write", write(own, &byte, 1));
    say("seek", lseek(own, 0, SEEK_CUR));
    say("ioctl", ioctl(own, FIONREAD, &byte));
    printf("ready %x\n", ready(own));
    say("to itself", kill_fd(own, SIGUSR1, NULL, 0));
    printf("got %d code %d\n", got == SIGUSR1, got_code);
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = SIGUSR1, info.si_code = SI_QUEUE, info.si_value.sival_int = 77;
    got = 0;
    say("with a value", kill_fd(own, SIGUSR1, &info, 0));
    printf("got %d value %d code %d\n", got == SIGUSR1, got_value, got_code == SI_QUEUE);
    say("another number", kill_fd(own, SIGUSR2, &info, 0));
    say("flags", kill_fd(own, SIGUSR1, NULL, 1));
    say("no such signal", kill_fd(own, 65, NULL, 0));
    say("bad address", kill_fd(own, SIGUSR1, (void *)8, 0));
    say("no descriptor", kill_fd(999, SIGUSR1, NULL, 0));
    say("not a process's", kill_fd(0, SIGUSR1, NULL, 0));
    say("not a child", syscall(SYS_waitid, PIDFD, own, &info, WEXITED, NULL));
    say("wait for another file", syscall(SYS_waitid, PIDFD, 0, &info, WEXITED, NULL));

    /* Readiness at the end, for poll and epoll, and what a zombie still answers. */
    pid_t pid = child(-1);
    int fd = open_pid(pid, 0), more[1000], set = epoll_create1(0), opened = 0;
    for (int i = 0; i < 1000; i++) opened += (more[i] = open_pid(pid, 0)) >= 0;
    printf("opened %d\n", opened);
    for (int i = 0; i < 1000; i++) if (more[i] >= 0 && i != 500) close(more[i]);
    struct epoll_event event = {EPOLLIN, {.u32 = 5}};
    say("watch", epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    printf("alive: %x, %d events\n", ready(fd), epoll_wait(set, &event, 1, 0));
    wait_fd("still alive", fd, WEXITED | WNOHANG);
    info.si_signo = SIGUSR1, info.si_code = 0;
    say("for another no code of the system's", kill_fd(fd, SIGUSR1, &info, 0));
    info.si_code = SI_TKILL;
    say("nor of a thread's", kill_fd(fd, SIGUSR1, &info, 0));
    say("stop", kill_fd(fd, SIGSTOP, NULL, 0));
    wait_fd("stopped", fd, WSTOPPED);
    printf("stopped: %x\n", ready(fd));
    say("end", kill_fd(fd, SIGKILL, NULL, 0));
    printf("wait: %d", epoll_wait(set, &event, 1, 5000));
    printf(" %x %u, %x\n", event.events, event.data.u32, ready(more[500]));
    say("a zombie is there", kill_fd(fd, 0, NULL, 0));
    say("and opens", open_pid(pid, 0));
    wait_fd("not taken away", fd, WEXITED | WNOWAIT);
    wait_fd("taken away", fd, WEXITED);
    wait_fd("once", fd, WEXITED);
    say("gone", kill_fd(fd, 0, NULL, 0));
    say("not by its number", open_pid(pid, 0));
    printf("gone: %x\n", ready(fd));
    close(fd);

    /* O_NONBLOCK: waiting does not wait. */
    pid = child(-1);
    fd = open_pid(pid, O_NONBLOCK);
    wait_fd("nonblocking", fd, WEXITED);
    wait_fd("asked not to wait", fd, WEXITED | WNOHANG);
    kill(pid, SIGTERM);
    poll(&(struct pollfd){fd, POLLIN, 0}, 1, 5000);
    wait_fd("ready", fd, WEXITED);

    /* Numbers go round: the descriptor stays the dead one's. */
    int reused = 0;
    for (int i = 0; i < 3; i++) {
        pid_t next = child(-1);
        reused += kill_fd(fd, SIGKILL, NULL, 0) == 0;
        kill(next, SIGKILL);
        waitpid(next, NULL, 0);
    }
    printf("reached another: %d\n", reused);
    close(fd);

    /* clone with CLONE_PIDFD. */
    int made = -1;
    fflush(stdout);
    pid = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &made, 0, 0);
    if (pid == 0) _exit(9);
    printf("clone: %d, cloexec %d\n", pid > 0 && made > 2, fcntl(made, F_GETFD));
    wait_fd("its child", made, WEXITED);
    close(made);
    uint64_t wish[8] = {CLONE_PIDFD, (uintptr_t)&made, 0, 0, SIGCHLD};
    pid = syscall(SYS_clone3, wish, sizeof wish);
    if (pid == 0) _exit(8);
    wait_fd("clone3", made, WEXITED);
    close(made);
    say("a thread has none", syscall(SYS_clone, CLONE_PIDFD | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, text + 64, &made, 0, 0));
    say("two in one place", syscall(SYS_clone, CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD, 0, &made, 0, 0));
    say("no place", syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, (void *)8, 0, 0));

    /* A child that nobody waits for. */
    signal(SIGCHLD, SIG_IGN);
    pid = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &made, 0, 0);
    if (pid == 0) _exit(0);
    poll(&(struct pollfd){made, POLLIN, 0}, 1, 5000);
    printf("unwanted: %x, ", ready(made));
    fflush(stdout);
    say("signal", kill_fd(made, 0, NULL, 0));
    signal(SIGCHLD, SIG_DFL);
    close(made);

    /* Over fork, a socket and exec. */
    int pair[2], status;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    pid = child(-1);
    fd = open_pid(pid, 0);
    fflush(stdout);
    if (fork() == 0) {
        close(fd);
        fd = take(pair[1]);
        printf("passed: %x", ready(fd));
        printf(", signal %d", kill_fd(fd, SIGTERM, NULL, 0));
        poll(&(struct pollfd){fd, POLLIN, 0}, 1, 5000);
        printf(", ready %x\n", ready(fd));
        wait_fd("another's child", fd, WEXITED);
        fflush(stdout);
        _exit(0);
    }
    pass(pair[0], fd);
    wait_fd("first", fd, WEXITED);
    wait(&status);
    close(fd);
    fflush(stdout);
    if (fork() == 0) {
        pid = child(4);
        fd = open_pid(pid, 0);
        fcntl(fd, F_SETFD, 0);
        snprintf(text, sizeof text, "%d", fd);
        execl("/proc/self/exe", "pidfds", text, NULL);
        _exit(1);
    }
    wait(&status);

    /* A folder of /proc is one as well, for signals alone. */
    pid = child(-1);
    snprintf(link, sizeof link, "/proc/%d", pid);
    fd = open(link, O_RDONLY | O_DIRECTORY);
    int path = open(link, O_PATH | O_DIRECTORY), all = open("/proc", O_RDONLY), root = open("/", O_RDONLY);
    snprintf(link, sizeof link, "/proc/%d/task", pid);
    int tasks = open(link, O_RDONLY);
    snprintf(link, sizeof link, "/proc/%d/task/%d", pid, pid);
    int task = open(link, O_RDONLY);
    snprintf(link, sizeof link, "/proc/%d/stat", pid);
    int stat_file = open(link, O_RDONLY);
    say("a folder of /proc", kill_fd(fd, 0, NULL, 0));
    say("a path alone", kill_fd(path, 0, NULL, 0));
    say("/proc itself", kill_fd(all, 0, NULL, 0));
    say("another folder", kill_fd(root, 0, NULL, 0));
    say("its threads' folder", kill_fd(tasks, 0, NULL, 0));
    say("a thread's folder", kill_fd(task, 0, NULL, 0));
    say("a file in it", kill_fd(stat_file, 0, NULL, 0));
    say("not to wait", syscall(SYS_waitid, PIDFD, fd, &info, WEXITED, NULL));
    fflush(stdout);
    if (fork() == 0) {
        if (setgid(1000) || setuid(1000)) _exit(1);
        say("as a user", kill_fd(fd, SIGKILL, NULL, 0));
        _exit(0);
    }
    wait(&status);
    int self = open("/proc/self", O_RDONLY | O_DIRECTORY);
    got = 0;
    say("to itself", kill_fd(self, SIGUSR1, NULL, 0));
    printf("got %d\n", got == SIGUSR1);
    close(self);
    say("end", kill_fd(fd, SIGKILL, NULL, 0));
    waitpid(pid, &status, 0);
    printf("ended by %d\n", WTERMSIG(status));
    say("gone", kill_fd(fd, 0, NULL, 0));
    for (int i = 0; i < 3; i++) {
        pid_t next = child(-1);
        reused += kill_fd(fd, SIGKILL, NULL, 0) == 0;
        kill(next, SIGKILL);
        waitpid(next, NULL, 0);
    }
    printf("reached another: %d\n", reused);
    close(fd);

    /* Who may. */
    pid = child(-1);
    fd = open_pid(pid, 0);
    fflush(stdout);
    if (fork() == 0) {
        if (setgid(1000) || setuid(1000)) _exit(1);
        say("as a user: signal", kill_fd(fd, SIGKILL, NULL, 0));
        say("as a user: open", open_pid(1, 0));
        say("as a user: own", kill_fd(open_pid(getpid(), 0), 0, NULL, 0));
        _exit(0);
    }
    wait(&status);
    kill_fd(fd, SIGKILL, NULL, 0);
    wait_fd("at last", fd, WEXITED);
    return 0;
}
