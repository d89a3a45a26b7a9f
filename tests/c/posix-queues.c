/* POSIX message queues: what each call says, the order of messages, waiting and its end, descriptors (poll, fork, close), names and who may. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAME "/cairn-queue"

static char text[10000];

static void tell(const char *what, long result) {
    if (result < 0) printf("%s: %s\n", what, strerror(errno));
    else printf("%s: done\n", what);
}

static void take(const char *what, mqd_t queue) {
    unsigned priority = 77;
    memset(text, 0, sizeof text);
    long got = mq_receive(queue, text, sizeof text, &priority);
    if (got < 0) printf("%s: %s\n", what, strerror(errno));
    else printf("%s: %ld %u %.30s\n", what, got, priority, text);
}

static void attributes(mqd_t queue) {
    struct mq_attr a;
    if (mq_getattr(queue, &a)) return perror("mq_getattr");
    printf("  flags %lo, %ld of %ld, %ld bytes each\n", a.mq_flags, a.mq_curmsgs, a.mq_maxmsg, a.mq_msgsize);
}

static struct timespec after(long ms) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000, t.tv_nsec %= 1000000000;
    return t;
}

static void handler(int s) { (void)s; }

/* SIGEV_THREAD: the C library has a thread that reads a socket of AF_NETLINK, and starts another one for each notification. */
static sem_t ran;
static void by_function(union sigval value) {
    printf("  in a thread: %d\n", value.sival_int);
    sem_post(&ran);
}
static void by_thread(mqd_t queue) {
    struct sigevent how = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = by_function, .sigev_value.sival_int = 66};
    struct sigevent signal = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    sem_init(&ran, 0, 0);
    for (int i = 0; i < 3; i++) {
        how.sigev_value.sival_int++;
        tell("notify by a thread", mq_notify(queue, &how));
        tell("busy", mq_notify(queue, &signal));
        mq_send(queue, "x", 2, 0), sem_wait(&ran);
        mq_send(queue, "x", 2, 0);
        mq_receive(queue, text, 100, 0), mq_receive(queue, text, 100, 0);
    }
    tell("by a thread of what?", mq_notify(99, &how));
    tell("notify by a thread", mq_notify(queue, &how));
    tell("no more", mq_notify(queue, 0));
    mq_send(queue, "x", 2, 0), mq_receive(queue, text, 100, 0);
    usleep(20000);
    printf("  and no thread: %d\n", sem_trywait(&ran));
    /* What the C library asks of the kernel. */
    char cookie[32] = "of our own";
    int pair[2], netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    struct sigevent raw = {.sigev_notify = SIGEV_THREAD, .sigev_signo = netlink, .sigev_value.sival_ptr = cookie};
    struct sigevent wrong = raw;
    wrong.sigev_value.sival_ptr = (void *)8, tell("no cookie", syscall(SYS_mq_notify, queue, &wrong));
    wrong = raw, wrong.sigev_signo = 99, tell("no descriptor", syscall(SYS_mq_notify, queue, &wrong));
    wrong.sigev_signo = queue, tell("no socket", syscall(SYS_mq_notify, queue, &wrong));
    wrong.sigev_signo = pair[0], tell("another socket", syscall(SYS_mq_notify, queue, &wrong));
    for (int i = 0; i < 3; i++) {
        char got[64] = "";
        mqd_t own = mq_open("/cairn-told", O_RDWR);
        tell("raw", syscall(SYS_mq_notify, own, &raw));
        if (i == 0) mq_send(queue, "x", 2, 0), mq_receive(queue, text, 100, 0);
        if (i == 1) syscall(SYS_mq_notify, queue, 0);
        mq_close(own);
        long length = recv(netlink, got, sizeof got, 0);
        printf("  %ld bytes, %s, %d\n", length, got, got[31]);
    }
    tell("and no more", recv(netlink, cookie, 32, MSG_DONTWAIT));
    close(netlink), close(pair[0]), close(pair[1]);
}

static mqd_t make(const char *name, int flags, long most, long size) {
    struct mq_attr a = {.mq_maxmsg = most, .mq_msgsize = size};
    return mq_open(name, flags | O_CREAT, 0600, &a);
}

static pid_t child(void (*run)(mqd_t), mqd_t queue) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) run(queue), fflush(stdout), _exit(0);
    return pid;
}
static void receives(mqd_t queue) { take("waited", queue); }
static volatile int seen, seen_value, seen_code;
static volatile pid_t seen_from;
static void told(int s, siginfo_t *info, void *c) {
    (void)s, (void)c;
    seen++, seen_value = info->si_value.sival_int, seen_code = info->si_code, seen_from = info->si_pid;
}
static void told_of(const char *what) {
    printf("%s: told %d", what, seen);
    if (seen) printf(" value %d code %d from %s", seen_value, seen_code == SI_MESGQ, seen_from == getpid() ? "itself" : "another");
    printf("\n"), seen = 0;
}
static void notifies(mqd_t queue) {
    struct sigevent how = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    tell("notify another", mq_notify(queue, &how));
}
static void receives_both(mqd_t queue) { take("waited beside", queue); }
static int fork_off(mqd_t queue) {
    fflush(stdout);
    pid_t pid = fork();
    int status;
    if (pid == 0) _exit(mq_notify(queue, 0) != 0);
    waitpid(pid, &status, 0);
    return -(status != 0);
}
static void sends(mqd_t queue) { tell("waited to send", mq_send(queue, "late", 5, 9)); }
static void stranger(mqd_t queue) {
    (void)queue;
    if (setgid(1001) || setuid(1001)) return;
    tell("stranger: open", mq_open(NAME, O_RDONLY));
    tell("stranger: make", mq_open(NAME, O_RDWR | O_CREAT, 0600, 0));
    tell("stranger: remove", mq_unlink(NAME));
    tell("too many messages", make("/cairn-other", O_RDWR, 11, 10));
    tell("too long ones", make("/cairn-other", O_RDWR, 10, 8193));
    mqd_t own = make("/cairn-other", O_RDWR, 10, 10);
    tell("its own", own);
    tell("remove it", mq_unlink("/cairn-other"));
    struct rlimit little = {1000, 1000};
    setrlimit(RLIMIT_MSGQUEUE, &little);
    tell("beyond the limit", mq_open("/cairn-other", O_RDWR | O_CREAT, 0600, 0));
}

int main(void) {
    struct mq_attr a;
    mq_unlink(NAME);
    char long_name[300] = "/";
    memset(long_name + 1, 'n', 298);
    tell("no name", mq_open("/", O_RDWR | O_CREAT, 0600, 0));
    tell("no slash", mq_open("cairn", O_RDWR | O_CREAT, 0600, 0));
    mq_unlink("cairn"); /* (musl makes one.) */
    tell("two names", mq_open("/cairn/queue", O_RDWR | O_CREAT, 0600, 0));
    tell("a long name", mq_open(long_name, O_RDWR | O_CREAT, 0600, 0));
    tell("what is not there", mq_open(NAME, O_RDWR));
    tell("remove it", mq_unlink(NAME));
    tell("no messages", make(NAME, O_RDWR, 0, 10));
    tell("fewer than none", make(NAME, O_RDWR, -1, 10));
    tell("no bytes", make(NAME, O_RDWR, 10, 0));
    mqd_t usual = mq_open(NAME, O_RDWR | O_CREAT, 0600, 0);
    attributes(usual);
    mq_close(usual), mq_unlink(NAME);
    mqd_t queue = make(NAME, O_RDWR | O_EXCL, 4, 100), reads = mq_open(NAME, O_RDONLY), writes = mq_open(NAME, O_WRONLY);
    tell("make", queue);
    tell("make again", make(NAME, O_RDWR | O_EXCL, 4, 100));
    tell("make the same", make(NAME, O_RDWR, 0, 0) < 0 ? -1 : 0);
    attributes(queue);
    struct stat st;
    tell("stat", fstat(queue, &st));
    printf("  %o %ld %d\n", st.st_mode, (long)st.st_size, st.st_uid);

    tell("send", mq_send(queue, "one", 4, 1));
    tell("send", mq_send(queue, "five", 5, 5));
    tell("send", mq_send(writes, "one again", 10, 1));
    tell("send nothing", mq_send(queue, "", 0, 32767));
    attributes(reads);
    struct timespec past = {1, 0}, odd = {1, 1000000000}, soon;
    tell("too many, in time", mq_timedsend(queue, "x", 1, 0, &past));
    soon = after(20);
    tell("too many, for some time", mq_timedsend(queue, "x", 1, 0, &soon));
    tell("an odd time", mq_timedsend(queue, "x", 1, 0, &odd));
    tell("priority too high", mq_send(queue, "x", 1, 32768));
    tell("too long", mq_send(queue, text, 101, 0));
    tell("to one that is read", mq_send(reads, "x", 1, 0));
    tell("to no queue", mq_send(1, "x", 1, 0));
    tell("to nothing", mq_send(99, "x", 1, 0));
    tell("from nowhere", (take("first", queue), mq_send(queue, (void *)8, 10, 0)));
    tell("little room", mq_receive(queue, text, 99, 0));
    tell("from one that is written", mq_receive(writes, text, 100, 0));
    tell("from no queue", mq_receive(1, text, 100, 0));
    take("receive", queue), take("receive", reads), take("receive", queue);
    soon = after(20);
    tell("for some time", mq_timedreceive(queue, text, 100, 0, &soon));
    tell("in the past", mq_timedreceive(queue, text, 100, 0, &past));
    tell("at an odd time", mq_timedreceive(queue, text, 100, 0, &odd));

    /* Flags. */
    a.mq_flags = O_NONBLOCK;
    struct mq_attr old;
    tell("do not wait", mq_setattr(queue, &a, &old));
    printf("  was %lo\n", old.mq_flags);
    attributes(queue), attributes(reads);
    printf("  fcntl says %d\n", (fcntl(queue, F_GETFL) & O_NONBLOCK) != 0);
    take("nothing there", queue);
    a.mq_flags = 1;
    tell("no such flag", mq_setattr(queue, &a, 0));
    a.mq_flags = 0;
    mq_setattr(queue, &a, 0);

    /* As long as they may be. */
    mqd_t large = make("/cairn-large", O_RDWR, 10, 8192);
    char sent[8192];
    for (int i = 0; i < 8192; i++) sent[i] = 'a' + i % 23;
    tell("long", mq_send(large, sent, 8192, 3));
    tell("short", mq_send(large, sent, 49, 2));
    take("long", large);
    printf("  the same: %d\n", !memcmp(text, sent, 8192));
    take("short", large);
    mq_close(large), mq_unlink("/cairn-large");

    /* Waiting. */
    pid_t pid = child(receives, queue);
    usleep(30000), mq_send(queue, "for who waits", 14, 3), waitpid(pid, 0, 0);
    for (int i = 0; i < 4; i++) mq_send(queue, "full", 5, i);
    pid = child(sends, queue);
    usleep(30000), take("room", queue), waitpid(pid, 0, 0);
    for (int i = 0; i < 4; i++) take("in order", queue);
    struct sigaction action = {.sa_handler = handler, .sa_flags = 0};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 20000}}, 0);
    take("interrupted", queue);
    pid = child(receives, queue), usleep(30000);
    kill(pid, SIGKILL), waitpid(pid, 0, 0);
    mq_send(queue, "kept", 5, 0), take("nobody took it", queue);

    /* Readiness. */
    struct pollfd p = {queue, POLLIN | POLLOUT, 0};
    printf("poll: %d %x\n", poll(&p, 1, 0), p.revents);
    mq_send(queue, "x", 2, 0);
    printf("poll: %d %x\n", poll(&p, 1, 0), p.revents);
    for (int i = 0; i < 3; i++) mq_send(queue, "x", 2, 0);
    printf("poll: %d %x\n", poll(&p, 1, 0), p.revents);
    for (int i = 0; i < 4; i++) mq_receive(queue, text, 100, 0);
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    tell("watch", epoll_ctl(set, EPOLL_CTL_ADD, queue, &event));
    printf("epoll: %d\n", epoll_wait(set, &event, 1, 0));
    fflush(stdout);
    if ((pid = fork()) == 0) usleep(20000), mq_send(queue, "from a child", 13, 2), _exit(0);
    printf("epoll: %d\n", epoll_wait(set, &event, 1, 5000));
    waitpid(pid, 0, 0);
    take("through another", reads);
    close(set);

    /* To be told of a message. */
    struct sigaction info = {.sa_sigaction = told, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGUSR1, &info, 0);
    struct sigevent how = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 55};
    mqd_t both = make("/cairn-told", O_RDWR, 4, 100);
    tell("notify", mq_notify(both, &how));
    tell("notify twice", mq_notify(both, &how));
    pid = child(notifies, both), waitpid(pid, 0, 0);
    mq_send(both, "x", 2, 0), told_of("by itself");
    mq_send(both, "x", 2, 0), told_of("no more");
    tell("notify again", mq_notify(both, &how));
    mq_send(both, "x", 2, 0), told_of("it was not empty");
    for (int i = 0; i < 3; i++) mq_receive(both, text, 100, 0);
    pid = child(sends, both), waitpid(pid, 0, 0), told_of("by another");
    mq_receive(both, text, 100, 0);
    tell("notify no more", mq_notify(both, 0));
    tell("notify no more, twice", mq_notify(both, 0));
    mq_notify(both, &how), mq_notify(both, 0);
    mq_send(both, "x", 2, 0), told_of("taken back"), mq_receive(both, text, 100, 0);
    mq_notify(both, &how);
    pid = child(receives_both, both), usleep(30000);
    mq_send(both, "x", 2, 0), waitpid(pid, 0, 0), told_of("somebody waited");
    mqd_t second = mq_open("/cairn-told", O_RDWR);
    mq_close(second);
    tell("closed: notify", mq_notify(both, &how));
    tell("of another's no more", fork_off(both));
    tell("busy", mq_notify(both, &how));
    mq_notify(both, 0);
    waitpid(child(notifies, both), 0, 0);
    how.sigev_notify = SIGEV_NONE;
    tell("after its end: nothing", mq_notify(both, &how));
    tell("busy", mq_notify(both, &how));
    mq_send(both, "x", 2, 0), told_of("nothing"), mq_receive(both, text, 100, 0);
    how.sigev_notify = 77;
    tell("how?", mq_notify(both, &how));
    how.sigev_notify = SIGEV_SIGNAL, how.sigev_signo = 65;
    tell("which signal?", mq_notify(both, &how));
    how.sigev_signo = SIGUSR1;
    tell("of what?", mq_notify(99, &how));
    tell("of what is no queue?", mq_notify(0, &how));
    by_thread(both);
    mq_close(both), mq_unlink("/cairn-told");

    /* Names. */
    waitpid(child(stranger, queue), 0, 0);
    mq_send(queue, "still there", 12, 0);
    tell("remove", mq_unlink(NAME));
    tell("it is gone", mq_open(NAME, O_RDWR));
    mqd_t new = make(NAME, O_RDWR, 2, 10);
    printf("a new one is another: %d\n", mq_getattr(new, &a) == 0 && a.mq_curmsgs == 0);
    take("the old one", queue);
    tell("close", mq_close(queue));
    tell("close again", mq_close(queue));
    tell("close what is no queue", mq_close(99));
    mq_unlink(NAME);
    return 0;
}
