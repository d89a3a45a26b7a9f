/* Sets of watched files: level, edge, one-shot, exclusive, nested, shared by fork; changed while somebody waits; ten thousand idle descriptors; timers and signals as descriptors, in another thread or process. cairn-test: cores=4 */
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
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void check(const char *what, int ok) { printf("%s: %s\n", what, ok ? "ok" : "WRONG"); }

static int add(int set, int fd, uint32_t events, uint64_t data) {
    struct epoll_event e = {.events = events, .data.u64 = data};
    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) == 0 ? 0 : errno;
}

static int change(int set, int fd, uint32_t events, uint64_t data) {
    struct epoll_event e = {.events = events, .data.u64 = data};
    return epoll_ctl(set, EPOLL_CTL_MOD, fd, &e) == 0 ? 0 : errno;
}

static int take_away(int set, int fd) { return epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL) == 0 ? 0 : errno; }

/* The events of the first that is ready; 0: nothing within the time. */
static uint32_t one(int set, int timeout) {
    struct epoll_event e;
    return epoll_wait(set, &e, 1, timeout) == 1 ? e.events : 0;
}

/* A close may take a moment to be seen. */
static int comes(int set, uint32_t events) {
    double until = ms() + 2000;
    while (one(set, 0) != events) {
        if (ms() > until) {
            return 0;
        }
    }
    return 1;
}

static void put(int fd) { (void)!write(fd, "x", 1); }
static void get(int fd) {
    char b[64];
    (void)!read(fd, b, 64);
}

struct waiter {
    pthread_t thread;
    int set, timeout;
    volatile int woken, done;
    volatile double after;
    struct epoll_event event;
};

static void *wait_in_thread(void *argument) {
    struct waiter *w = argument;
    double from = ms();
    w->woken = epoll_wait(w->set, &w->event, 1, w->timeout);
    w->after = ms() - from;
    w->done = 1;
    return NULL;
}

static void begin(struct waiter *w, int set, int timeout) {
    *w = (struct waiter){.set = set, .timeout = timeout};
    pthread_create(&w->thread, NULL, wait_in_thread, w);
}

static int ended(struct waiter *w) {
    pthread_join(w->thread, NULL);
    return w->woken;
}

/* How many of the two are woken by a write to `end`. The other one is let go afterwards. */
static int woken_by(int end, struct waiter *w, struct waiter *x) {
    begin(w, w->set, -1), begin(x, x->set, -1);
    usleep(50000);
    put(end);
    double until = ms() + 5000;
    while (!w->done && !x->done && ms() < until) {
        usleep(1000);
    }
    usleep(100000);
    int woken = w->done + x->done;
    int let_go = eventfd(1, 0);
    add(w->set, let_go, EPOLLIN, 99), add(x->set, let_go, EPOLLIN, 99);
    ended(w), ended(x);
    close(let_go);
    return woken;
}

static void level_and_edge(void) {
    int p[2], set = epoll_create1(0);
    (void)!pipe2(p, O_NONBLOCK);
    check("level: add", add(set, p[0], EPOLLIN, 1) == 0 && one(set, 0) == 0);
    put(p[1]);
    check("level: again and again", one(set, 0) == EPOLLIN && one(set, 0) == EPOLLIN);
    get(p[0]);
    check("level: not when it is read", one(set, 0) == 0);
    check("edge: change", (put(p[1]), change(set, p[0], EPOLLIN | EPOLLET, 1)) == 0);
    check("edge: what is there at a change is told", one(set, 0) == EPOLLIN);
    check("edge: once", one(set, 0) == 0);
    put(p[1]);
    check("edge: more comes", one(set, 0) == EPOLLIN && one(set, 0) == 0);
    char c;
    check("edge: reading a part is no edge", read(p[0], &c, 1) == 1 && one(set, 0) == 0);
    get(p[0]);
    put(p[1]);
    get(p[0]);
    check("edge: nothing when it is gone again", one(set, 0) == 0);
    check("one-shot: change", change(set, p[0], EPOLLIN | EPOLLONESHOT, 1) == 0);
    put(p[1]);
    check("one-shot: once", one(set, 0) == EPOLLIN && one(set, 0) == 0);
    put(p[1]);
    check("one-shot: not even for more", one(set, 0) == 0);
    check("one-shot: until it is changed", change(set, p[0], EPOLLIN | EPOLLONESHOT, 1) == 0 && one(set, 0) == EPOLLIN && one(set, 0) == 0);
    check("one-shot: not for its end", (close(p[1]), one(set, 0)) == 0);
    change(set, p[0], 0, 1);
    check("hang-up comes unasked", comes(set, EPOLLHUP));
    check("remove", take_away(set, p[0]) == 0 && take_away(set, p[0]) == ENOENT && one(set, 0) == 0);
    close(p[0]);
    (void)!pipe2(p, O_NONBLOCK);
    add(set, p[1], EPOLLOUT | EPOLLET, 2);
    static char big[65536];
    check("edge: writable", one(set, 0) == EPOLLOUT && one(set, 0) == 0);
    while (write(p[1], big, sizeof big) > 0) {
    }
    check("edge: full", one(set, 0) == 0);
    while (read(p[0], big, sizeof big) > 0) {
    }
    check("edge: writable again", one(set, 0) == EPOLLOUT && one(set, 0) == 0);
    check("error without readers", (close(p[0]), comes(set, EPOLLOUT | EPOLLERR)));
    close(p[1]);
    int s[2];
    (void)!socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    add(set, s[0], EPOLLIN | EPOLLRDHUP, 3);
    shutdown(s[1], SHUT_WR);
    check("half closed", one(set, 0) == (EPOLLIN | EPOLLRDHUP));
    close(s[1]);
    check("closed", comes(set, EPOLLIN | EPOLLRDHUP | EPOLLHUP));
    close(s[0]);
    int v = eventfd(0, 0);
    uint64_t n = 1;
    add(set, v, EPOLLIN | EPOLLOUT | EPOLLET, 4);
    check("eventfd: writable", one(set, 0) == EPOLLOUT);
    (void)!write(v, &n, 8);
    check("eventfd: an edge for each write", one(set, 0) == (EPOLLIN | EPOLLOUT) && one(set, 0) == 0);
    (void)!write(v, &n, 8);
    check("eventfd: and another", one(set, 0) == (EPOLLIN | EPOLLOUT) && one(set, 0) == 0);
    close(v), close(set);
}

static void errors(void) {
    int set = epoll_create1(0), other = epoll_create1(0), p[2];
    (void)!pipe(p);
    check("no such set", add(99, p[0], EPOLLIN, 0) == EBADF);
    check("no set", add(p[0], p[1], EPOLLIN, 0) == EINVAL);
    check("no such file", add(set, 99, EPOLLIN, 0) == EBADF);
    check("itself", add(set, set, EPOLLIN, 0) == EINVAL);
    check("/dev/null", add(set, open("/dev/null", O_RDWR), EPOLLIN, 0) == EPERM);
    check("a folder", add(set, open("/", O_RDONLY), EPOLLIN, 0) == EPERM);
    check("what is not there", change(set, p[0], EPOLLIN, 0) == ENOENT && take_away(set, p[0]) == ENOENT);
    check("twice", add(set, p[0], EPOLLIN, 0) == 0 && add(set, p[0], EPOLLIN, 0) == EEXIST);
    check("exclusive cannot be changed", change(set, p[0], EPOLLIN | EPOLLEXCLUSIVE, 0) == EINVAL);
    check("exclusive with one-shot", add(set, p[1], EPOLLOUT | EPOLLEXCLUSIVE | EPOLLONESHOT, 0) == EINVAL);
    check("exclusive set", add(set, other, EPOLLIN | EPOLLEXCLUSIVE, 0) == EINVAL);
    check("bad operation", epoll_ctl(set, 7, p[0], &(struct epoll_event){0}) == -1 && errno == EINVAL);
    check("bad memory", epoll_ctl(set, EPOLL_CTL_ADD, p[1], NULL) == -1 && errno == EFAULT);
    struct epoll_event e;
    check("no room", epoll_wait(set, &e, 0, 0) == -1 && errno == EINVAL);
    put(p[1]);
    struct epoll_event *volatile nowhere = (void *)16;
    check("bad array", epoll_wait(set, nowhere, 1, 0) == -1 && errno == EFAULT);
    check("flags", epoll_create1(3) == -1 && errno == EINVAL);
    check("read", read(set, &e, sizeof e) == -1 && errno == EINVAL);
    close(set), close(other), close(p[0]), close(p[1]);
}

static void nested(void) {
    int a = epoll_create1(0), b = epoll_create1(0), c = epoll_create1(0), p[2];
    (void)!pipe(p);
    check("nested: add", add(a, b, EPOLLIN, 1) == 0 && add(b, c, EPOLLIN, 2) == 0 && add(c, p[0], EPOLLIN, 3) == 0);
    check("nested: no circle", add(c, a, EPOLLIN, 0) == ELOOP && add(b, a, EPOLLIN, 0) == ELOOP);
    check("nested: nothing", one(a, 0) == 0);
    struct waiter w;
    begin(&w, a, 5000);
    usleep(20000);
    put(p[1]);
    check("nested: wakes", ended(&w) == 1 && w.event.data.u64 == 1 && w.event.events == EPOLLIN && w.after < 2000);
    struct pollfd f = {a, POLLIN, 0};
    check("nested: level", one(a, 0) == EPOLLIN && one(b, 0) == EPOLLIN && one(c, 0) == EPOLLIN && poll(&f, 1, 0) == 1);
    get(p[0]);
    check("nested: read", one(a, 0) == 0 && poll(&f, 1, 0) == 0);
    close(a), close(b), close(c), close(p[0]), close(p[1]);
}

static void while_waiting(void) {
    int p[2], q[2], set = epoll_create1(0);
    (void)!pipe(p), (void)!pipe(q);
    put(q[1]);
    struct waiter w, x;
    begin(&w, set, 5000);
    usleep(30000);
    check("added while another waits, ready", add(set, q[0], EPOLLIN | EPOLLET, 5) == 0 && ended(&w) == 1 && w.event.data.u64 == 5 && w.after < 2000);
    begin(&w, set, 5000);
    usleep(30000);
    add(set, p[0], EPOLLIN | EPOLLET, 6);
    usleep(30000);
    put(p[1]);
    check("added while another waits, ready later", ended(&w) == 1 && w.event.data.u64 == 6 && w.after < 2000);
    begin(&w, set, 5000);
    usleep(30000);
    check("changed while another waits", change(set, p[0], EPOLLIN | EPOLLET, 7) == 0 && ended(&w) == 1 && w.event.data.u64 == 7 && w.after < 2000);
    get(p[0]), get(q[0]);
    begin(&w, set, 300);
    usleep(30000);
    take_away(set, p[0]);
    put(p[1]);
    check("removed while another waits", ended(&w) == 0);
    get(p[0]);

    add(set, p[0], EPOLLIN | EPOLLET, 8);
    w.set = x.set = set;
    check("edge: wakes one of two", woken_by(p[1], &w, &x) == 1);
    get(p[0]);
    change(set, p[0], EPOLLIN | EPOLLONESHOT, 9);
    check("one-shot: wakes one of two", woken_by(p[1], &w, &x) == 1);
    get(p[0]);
    take_away(set, p[0]);
    int other = epoll_create1(0);
    add(set, p[0], EPOLLIN | EPOLLEXCLUSIVE, 1), add(other, p[0], EPOLLIN | EPOLLEXCLUSIVE, 2);
    x.set = other;
    /* Who comes only after the write finds what it wrote, too: on a slow host once more. */
    int woken = 2;
    for (int i = 0; i < 5 && woken == 2; i++) {
        woken = woken_by(p[1], &w, &x);
        get(p[0]);
    }
    check("exclusive: wakes one of two", woken == 1);
    close(set), close(other), close(p[0]), close(p[1]), close(q[0]), close(q[1]);
}

static void closing(void) {
    int p[2], set = epoll_create1(0);
    (void)!pipe(p);
    add(set, p[0], EPOLLIN, 1);
    put(p[1]);
    int copy = dup(p[0]);
    close(p[0]);
    check("a copy of the descriptor keeps the interest", one(set, 0) == EPOLLIN && take_away(set, p[0]) == EBADF);
    close(copy);
    check("the last one takes it along", one(set, 0) == 0);
    static const char *const kinds[] = {"pipe", "socket", "eventfd", "timer"};
    int told[4] = {0};
    for (int i = 0; i < 400; i++) {
        int e[2] = {-1, -1};
        struct itimerspec soon = {.it_value.tv_nsec = 1};
        switch (i % 4) {
        case 0: (void)!pipe(e), put(e[1]); break;
        case 1: (void)!socketpair(AF_UNIX, SOCK_STREAM, 0, e), put(e[1]); break;
        case 2: e[0] = eventfd(1, 0); break;
        case 3: e[0] = timerfd_create(CLOCK_MONOTONIC, 0), timerfd_settime(e[0], 0, &soon, NULL); break;
        }
        add(set, e[0], EPOLLIN, 100 + i);
        int first = one(set, 2000);
        close(e[0]);
        told[i % 4] += first != EPOLLIN || one(set, 0) != 0;
        close(e[1]);
    }
    for (int i = 0; i < 4; i++) {
        printf("a closed %s is told of no more: %s\n", kinds[i], told[i] == 0 ? "ok" : "WRONG");
    }
    int again = open("/dev/tty", O_RDWR), r[2];
    (void)!pipe(r);
    check("the number is another file's", add(set, r[0], EPOLLIN, 2) == 0);
    if (again >= 0) {
        close(again);
    }
    pid_t child = fork();
    if (child == 0) {
        pause();
    }
    put(r[1]);
    int number = r[0];
    close(r[0]);
    check("another process keeps the interest", one(set, 0) == EPOLLIN);
    int s[2];
    (void)!pipe(s);
    int moved = dup2(s[0], number);
    check("and the number can be added again", add(set, moved, EPOLLIN, 3) == 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    double until = ms() + 2000;
    while (one(set, 0) != 0 && ms() < until) {
        usleep(1000);
    }
    check("until it ends", one(set, 0) == 0);
    close(set);
}

static void forked(void) {
    int set = epoll_create1(0), p[2], v = eventfd(0, 0);
    (void)!pipe(p);
    uint64_t n;
    pid_t child = fork();
    if (child == 0) {
        add(set, p[0], EPOLLIN, 77);
        n = 1;
        (void)!write(v, &n, 8);
        pause();
    }
    (void)!read(v, &n, 8);
    put(p[1]);
    struct epoll_event e;
    check("fork: what the child adds is in the parent's set", epoll_wait(set, &e, 1, 1000) == 1 && e.data.u64 == 77);
    check("fork: and can be removed here", take_away(set, p[0]) == 0 && one(set, 0) == 0);
    kill(child, SIGKILL), waitpid(child, NULL, 0);

    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    child = fork();
    if (child == 0) {
        struct pollfd f = {timer, POLLIN, 0};
        int ok = poll(&f, 1, 3000) == 1 && read(timer, &n, 8) == 8 && n >= 1;
        _exit(ok ? 0 : 1);
    }
    usleep(30000);
    struct itimerspec t = {.it_value.tv_nsec = 30000000};
    int status;
    timerfd_settime(timer, 0, &t, NULL);
    check("fork: a timer that the parent sets expires in the child", waitpid(child, &status, 0) == child && status == 0);
    struct pollfd f = {timer, POLLIN, 0};
    check("fork: and was read there", poll(&f, 1, 0) == 0);
    close(timer), close(set), close(v), close(p[0]), close(p[1]);
}

static void timers(void) {
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), set = epoll_create1(0);
    struct itimerspec t = {.it_value.tv_nsec = 20000000, .it_interval.tv_nsec = 10000000}, old;
    uint64_t n = 0;
    check("timer: not yet", read(timer, &n, 8) == -1 && errno == EAGAIN);
    check("timer: flags", timerfd_settime(timer, 8, &t, NULL) == -1 && errno == EINVAL);
    check("timer: cancel on set", timerfd_settime(timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &t, NULL) == 0 && timerfd_settime(timer, 0, &t, &old) == 0);
    t.it_value.tv_nsec = 1000000000;
    check("timer: times", timerfd_settime(timer, 0, &t, NULL) == -1 && errno == EINVAL);
    t.it_value.tv_nsec = 20000000;
    double from = ms();
    timerfd_settime(timer, 0, &t, NULL);
    add(set, timer, EPOLLIN, 1);
    check("timer: wakes a set", one(set, 4000) == EPOLLIN && ms() - from < 3000);
    usleep(55000);
    check("timer: counts", read(timer, &n, 8) == 8 && n >= 4 && n <= (ms() - from) / 10);
    check("timer: short read", read(timer, &n, 4) == -1 && errno == EINVAL);
    check("timer: what is left", timerfd_gettime(timer, &old) == 0 && old.it_interval.tv_nsec == 10000000 && old.it_value.tv_nsec >= 0 && old.it_value.tv_nsec <= 10000000);
    memset(&t, 0, sizeof t);
    timerfd_settime(timer, 0, &t, &old);
    get(timer);
    check("timer: stopped", one(set, 50) == 0);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    t.it_value = now;
    check("timer: a time that is over", timerfd_settime(timer, TFD_TIMER_ABSTIME, &t, NULL) == 0 && one(set, 1000) == EPOLLIN && read(timer, &n, 8) == 8 && n == 1);
    int real = timerfd_create(CLOCK_REALTIME, 0);
    from = ms();
    clock_gettime(CLOCK_REALTIME, &now);
    t.it_value.tv_sec = now.tv_sec + 1, t.it_value.tv_nsec = now.tv_nsec;
    check("timer: real time", timerfd_settime(real, TFD_TIMER_ABSTIME, &t, NULL) == 0 && read(real, &n, 8) == 8 && n == 1 && ms() - from > 900 && ms() - from < 10000);
    close(timer), close(real), close(set);
}

static void *send_later(void *argument) {
    (void)argument;
    usleep(50000);
    kill(getpid(), SIGUSR1);
    return NULL;
}

static void *read_signal(void *argument) {
    struct signalfd_siginfo info;
    double from = ms();
    int fd = *(int *)argument;
    return (void *)(intptr_t)(read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1 && ms() - from < 2000);
}

static void signals(void) {
    sigset_t mask;
    sigemptyset(&mask), sigaddset(&mask, SIGUSR1);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    int fd = signalfd(-1, &mask, SFD_NONBLOCK), set = epoll_create1(0);
    struct signalfd_siginfo info;
    add(set, fd, EPOLLIN, 1);
    check("signal: nothing", one(set, 0) == 0 && read(fd, &info, sizeof info) == -1 && errno == EAGAIN);
    struct waiter w;
    begin(&w, set, 5000);
    usleep(50000);
    kill(getpid(), SIGUSR1);
    check("signal: wakes a set in another thread", ended(&w) == 1 && w.after < 2000);
    check("signal: level", one(set, 0) == EPOLLIN);
    check("signal: is read", read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1 && one(set, 0) == 0);
    pthread_t sender;
    pthread_create(&sender, NULL, send_later, NULL);
    double from = ms();
    check("signal: wakes the thread that does nothing else", one(set, 5000) == EPOLLIN && ms() - from < 2000);
    pthread_join(sender, NULL);
    read(fd, &info, sizeof info);
    struct pollfd f[2] = {{fd, POLLIN, 0}, {set, POLLIN, 0}};
    pthread_create(&sender, NULL, send_later, NULL);
    from = ms();
    check("signal: wakes poll", poll(f, 2, 5000) >= 1 && f[0].revents == POLLIN && ms() - from < 2000);
    pthread_join(sender, NULL);
    read(fd, &info, sizeof info);
    fcntl(fd, F_SETFL, 0);
    pthread_t reader;
    void *result;
    pthread_create(&reader, NULL, read_signal, &fd);
    usleep(50000);
    kill(getpid(), SIGUSR1);
    pthread_join(reader, &result);
    check("signal: is read in another thread", result != NULL);
    pid_t child = fork();
    if (child == 0) {
        fcntl(fd, F_SETFL, O_NONBLOCK);
        int empty = read(fd, &info, sizeof info) == -1 && errno == EAGAIN;
        kill(getpid(), SIGUSR1);
        int own = read(fd, &info, sizeof info) == sizeof info && info.ssi_pid == (uint32_t)getpid();
        _exit(empty && own ? 0 : 1);
    }
    int status;
    check("signal: a child reads its own", waitpid(child, &status, 0) == child && status == 0 && read(fd, &info, sizeof info) == -1);
    close(fd), close(set);
}

static void many(int count) {
    int set = epoll_create1(0), p[2];
    (void)!pipe(p);
    int *idle = malloc(count * sizeof *idle), ok = 1;
    for (int i = 0; i < count; i++) {
        idle[i] = eventfd(0, 0);
        ok &= idle[i] >= 0 && add(set, idle[i], EPOLLIN, i) == 0;
    }
    ok &= add(set, p[0], EPOLLIN, 1 << 30) == 0;
    put(p[1]);
    struct epoll_event e;
    double took = 1000;
    for (int i = 0; i < 100; i++) {
        double from = ms();
        ok &= epoll_wait(set, &e, 1, 1000) == 1 && e.data.u64 == 1 << 30;
        took = ms() - from < took ? ms() - from : took;
    }
    printf("%d idle descriptors: %s, a wait takes less than a millisecond: %s\n", count, ok ? "ok" : "WRONG", took < 1 ? "ok" : "WRONG");
    uint64_t n = 1;
    struct epoll_event got[64];
    get(p[0]);
    for (int i = 0; i < 50; i++) {
        (void)!write(idle[i * (count / 50)], &n, 8);
    }
    int seen = 0;
    for (int i = 0; i < 5; i++) {
        int found = epoll_wait(set, got, 20, 0);
        seen += found;
        for (int j = 0; j < found; j++) {
            (void)!read(idle[got[j].data.u64], &n, 8);
        }
    }
    check("fifty of them, twenty at a time", seen == 50 && one(set, 0) == 0);
    for (int i = 0; i < count; i++) {
        close(idle[i]);
    }
    free(idle), close(set), close(p[0]), close(p[1]);
}

static void polls(void) {
    struct pollfd f[100];
    int v[100], ok = 1;
    uint64_t n = 1;
    for (int i = 0; i < 100; i++) {
        v[i] = eventfd(0, 0);
        f[i] = (struct pollfd){v[i], POLLIN, 0};
    }
    for (int i = 0; i < 300; i++) {
        int at = i * 37 % 100;
        (void)!write(v[at], &n, 8);
        ok &= poll(f, 100, -1) == 1 && f[at].revents == POLLIN;
        (void)!read(v[at], &n, 8);
        ok &= poll(f, 100, 0) == 0;
        if (i % 50 == 49) {
            /* Another file at the same number. */
            close(v[at]);
            int fd = eventfd(1, 0);
            ok &= fd == v[at] && poll(f, 100, 0) == 1 && f[at].revents == POLLIN;
            (void)!read(fd, &n, 8);
        }
    }
    check("poll of a hundred", ok);
    f[3].events = POLLOUT, f[7].fd = -1;
    check("poll of others", poll(f, 100, 0) == 1 && f[3].revents == POLLOUT && poll(f, 100, -1) == 1);
    for (int i = 0; i < 10; i++) {
        (void)!write(v[i * 10], &n, 8);
    }
    ok = 1;
    for (int i = 0; i < 3; i++) {
        ok &= poll(f, 100, 0) == 11;
    }
    check("eleven of a hundred", ok);
    fd_set set;
    ok = 1;
    for (int i = 0; i < 4; i++) {
        FD_ZERO(&set);
        for (int j = 0; j < 100; j++) {
            FD_SET(v[j], &set);
        }
        ok &= select(1024, &set, NULL, NULL, &(struct timeval){1, 0}) == 10 && FD_ISSET(v[90], &set) && !FD_ISSET(v[91], &set);
    }
    check("select of a hundred", ok);
    pid_t child = fork();
    if (child == 0) {
        ok = poll(f, 100, 0) == 11 && poll(f, 100, 0) == 11 && poll(f, 100, 0) == 11;
        _exit(!ok);
    }
    int status;
    check("poll after fork", waitpid(child, &status, 0) == child && status == 0 && poll(f, 100, 0) == 11);
    for (int i = 0; i < 100; i++) {
        close(v[i]);
    }
}

/* All that are ready come with one wait, each once. */
static void many_ready(int count) {
    int set = epoll_create1(0), ready = eventfd(1, 0), wrong = 0;
    struct epoll_event *e = calloc(count, sizeof *e);
    char *seen = calloc(count, 1);
    for (int i = 0; i < count; i++) {
        wrong += add(set, dup(ready), EPOLLIN, i) != 0;
    }
    int told = epoll_wait(set, e, count, 0);
    for (int i = 0; i < told; i++) {
        wrong += seen[e[i].data.u64]++;
    }
    printf("%d ready: %d, %d wrong\n", count, told, wrong);
    for (int fd = set; fd <= ready + count; fd++) {
        close(fd);
    }
    free(e), free(seen);
}

int main(int argc, char **argv) {
    setbuf(stdout, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (argc == 3) {
        /* After exec: the set and the timer are still there. */
        int set = atoi(argv[1]), timer = atoi(argv[2]);
        uint64_t n;
        check("exec: the set", one(set, 1000) == EPOLLIN);
        check("exec: the timer", read(timer, &n, 8) == 8 && n == 1);
        return 0;
    }
    level_and_edge();
    errors();
    nested();
    while_waiting();
    closing();
    forked();
    timers();
    signals();
    polls();
    many(900);
    struct rlimit most = {12000, 12000};
    check("descriptors", setrlimit(RLIMIT_NOFILE, &most) == 0);
    many(10000);
    many_ready(3000);
    int set = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec t = {.it_value.tv_nsec = 10000000};
    add(set, timer, EPOLLIN, 1);
    timerfd_settime(timer, 0, &t, NULL);
    char first[12], second[12];
    sprintf(first, "%d", set), sprintf(second, "%d", timer);
    execl("/proc/self/exe", "epoll", first, second, NULL);
    return 1;
}
