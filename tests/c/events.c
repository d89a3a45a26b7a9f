/* Waiting for several things at once, and files that are not files: poll, select, epoll, eventfd, timerfd, signalfd, socket pairs, memory files, spawning. cairn-test: cores=4 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void check(const char *what, int ok) { printf("%s: %s\n", what, ok ? "ok" : "WRONG"); }

static void writer(int fd, int after_ms) {
    if (fork() == 0) {
        usleep(after_ms * 1000);
        _exit(write(fd, "x", 1) != 1);
    }
}

static volatile int caught;
static void on_signal(int s) { caught = s; }

int main(void) {
    setbuf(stdout, NULL);
    char b[64];
    int p[2], q[2], s[2];
    if (pipe(p) || pipe(q) || socketpair(AF_UNIX, SOCK_STREAM, 0, s)) {
        return 1;
    }

    struct pollfd f[3] = {{p[0], POLLIN, 0}, {q[0], POLLIN, 0}, {-1, POLLIN, 9}};
    long t = ms();
    check("poll times out", poll(f, 3, 50) == 0 && ms() - t >= 49 && f[2].revents == 0);
    writer(q[1], 30);
    check("poll several", poll(f, 3, -1) == 1 && f[1].revents == POLLIN && f[0].revents == 0 && read(q[0], b, 9) == 1);
    writer(p[1], 30);
    check("poll one", poll(f, 1, -1) == 1 && f[0].revents == POLLIN && read(p[0], b, 9) == 1);
    f[0].fd = 77;
    check("poll bad descriptor", poll(f, 2, -1) == 1 && f[0].revents == POLLNVAL);
    f[0].fd = p[1], f[0].events = POLLOUT;
    check("poll writable", poll(f, 2, -1) == 1 && f[0].revents == POLLOUT);

    fd_set r, w;
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_SET(p[0], &r);
    FD_SET(q[0], &r);
    FD_SET(p[1], &w);
    check("select", select(64, &r, &w, NULL, NULL) == 1 && FD_ISSET(p[1], &w) && !FD_ISSET(p[0], &r));
    struct timeval tv = {0, 20000};
    FD_ZERO(&r);
    FD_SET(p[0], &r);
    check("select times out", select(64, &r, NULL, NULL, &tv) == 0 && !FD_ISSET(p[0], &r));

    int e = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = 0x1234567890}, got[4];
    check("epoll add", epoll_ctl(e, EPOLL_CTL_ADD, p[0], &ev) == 0 && epoll_ctl(e, EPOLL_CTL_ADD, p[0], &ev) == -1 && errno == EEXIST);
    ev.events = EPOLLIN | EPOLLONESHOT, ev.data.u64 = 7;
    check("epoll add one-shot", epoll_ctl(e, EPOLL_CTL_ADD, q[0], &ev) == 0);
    check("epoll nothing", epoll_wait(e, got, 4, 10) == 0);
    writer(q[1], 20);
    check("epoll wakes", epoll_wait(e, got, 4, -1) == 1 && got[0].data.u64 == 7 && got[0].events == EPOLLIN);
    check("epoll one-shot", epoll_wait(e, got, 4, 10) == 0);
    writer(p[1], 0);
    check("epoll level", epoll_wait(e, got, 4, -1) == 1 && epoll_wait(e, got, 4, 0) == 1 && got[0].data.u64 == 0x1234567890);
    check("epoll remove", epoll_ctl(e, EPOLL_CTL_DEL, p[0], NULL) == 0 && epoll_wait(e, got, 4, 0) == 0);
    check("epoll regular file", (ev.events = EPOLLIN, epoll_ctl(e, EPOLL_CTL_ADD, open("/etc/passwd", O_RDONLY), &ev)) == -1 && errno == EPERM);
    check("drained", read(p[0], b, 9) == 1 && read(q[0], b, 9) == 1);

    uint64_t n = 0;
    int v = eventfd(3, EFD_NONBLOCK);
    check("eventfd", read(v, &n, 8) == 8 && n == 3 && read(v, &n, 8) == -1 && errno == EAGAIN);
    n = 5;
    check("eventfd adds", write(v, &n, 8) == 8 && write(v, &n, 8) == 8 && read(v, &n, 8) == 8 && n == 10);

    int tf = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec its = {.it_value.tv_nsec = 20000000, .it_interval.tv_nsec = 10000000};
    check("timerfd", timerfd_settime(tf, 0, &its, NULL) == 0 && read(tf, &n, 8) == 8 && n >= 1);
    f[0] = (struct pollfd){tf, POLLIN, 0}, f[1] = (struct pollfd){q[0], POLLIN, 0};
    check("timerfd polls", poll(f, 2, -1) == 1 && f[0].revents == POLLIN);
    memset(&its, 0, sizeof its);
    timerfd_settime(tf, 0, &its, NULL);

    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGCHLD);
    while (waitpid(-1, NULL, 0) > 0) {
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    int sf = signalfd(-1, &set, SFD_CLOEXEC);
    struct signalfd_siginfo si;
    kill(getpid(), SIGUSR1);
    check("signalfd", read(sf, &si, sizeof si) == sizeof si && si.ssi_signo == SIGUSR1 && si.ssi_pid == (uint32_t)getpid());
    pid_t child = fork();
    if (child == 0) {
        _exit(4);
    }
    siginfo_t info;
    check("sigwaitinfo SIGCHLD", sigwaitinfo(&set, &info) == SIGCHLD && info.si_pid == child && info.si_status == 4 && info.si_code == CLD_EXITED);
    check("waitid", waitid(P_PID, child, &info, WEXITED) == 0 && info.si_status == 4);
    struct timespec ts = {0, 20000000};
    check("sigtimedwait times out", sigtimedwait(&set, &info, &ts) == -1 && errno == EAGAIN);
    sigprocmask(SIG_UNBLOCK, &set, NULL);

    struct sigaction sa = {.sa_handler = on_signal};
    sigaction(SIGUSR2, &sa, NULL);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGUSR2);
    check("blocked", caught == 0);
    sigset_t none;
    sigemptyset(&none);
    f[0] = (struct pollfd){p[0], POLLIN, 0};
    check("ppoll lets it through", ppoll(f, 1, NULL, &none) == -1 && errno == EINTR && caught == SIGUSR2);
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    check("mask is back", sigismember(&now, SIGUSR2) == 1);
    sigprocmask(SIG_SETMASK, &none, NULL);

    struct iovec iov[2] = {{"ab", 2}, {"cd", 2}};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
    check("sendmsg", sendmsg(s[0], &m, 0) == 4 && recv(s[1], b, 9, MSG_PEEK) == 4 && recv(s[1], b, 9, 0) == 4 && memcmp(b, "abcd", 4) == 0);
    check("recv does not wait", recv(s[1], b, 9, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    check("shutdown", shutdown(s[0], SHUT_WR) == 0 && read(s[1], b, 9) == 0);
    signal(SIGPIPE, SIG_IGN);
    check("broken pipe", (close(p[0]), write(p[1], "x", 1)) == -1 && errno == EPIPE);

    int mf = memfd_create("x", 0);
    check("memfd", write(mf, "hello", 5) == 5 && ftruncate(mf, 8192) == 0 && lseek(mf, 0, SEEK_END) == 8192);
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, mf, 0);
    check("shared mapping", map != MAP_FAILED && memcmp(map, "hello", 5) == 0 && (map[4096] = 'z', pread(mf, b, 1, 4096)) == 1 && b[0] == 'z');
    off_t at = 1;
    check("sendfile", sendfile(q[1], mf, &at, 4) == 4 && at == 5 && read(q[0], b, 9) == 4 && memcmp(b, "ello", 4) == 0);

    posix_spawn_file_actions_t fa;
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, q[1], 1);
    posix_spawn_file_actions_addclose(&fa, q[0]);
    char *argv[] = {"echo", "spawned", NULL}, *envp[] = {NULL};
    int status;
    check("spawn", posix_spawn(&child, "/bin/echo", &fa, NULL, argv, envp) == 0 && waitpid(child, &status, 0) == child && status == 0);
    close(q[1]);
    check("spawn's output, then the end", read(q[0], b, 64) == 8 && memcmp(b, "spawned\n", 8) == 0 && read(q[0], b, 9) == 0);
    check("spawn of nothing", posix_spawn(&child, "/nowhere", NULL, NULL, argv, envp) == ENOENT);
    pid_t vf = vfork();
    if (vf == 0) {
        execl("/bin/false", "false", NULL);
        _exit(9);
    }
    check("vfork", waitpid(vf, &status, 0) == vf && WEXITSTATUS(status) == 1);
    return 0;
}
