/* Clocks, and timers: overruns, intervals far too short, the same signal for several, a thread's own, SIGEV_THREAD beside fork, ignored signals, interval timers. cairn-test: cores=4 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { MS = 1000000 };

static volatile sig_atomic_t count[65], overrun, code, value;

static void note(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (overrun < info->si_overrun) {
        overrun = info->si_overrun;
    }
    code = info->si_code;
    value = info->si_value.sival_int;
    count[signal]++;
}

static void listen_to(int signal) {
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(signal, &action, NULL);
}

static void rest(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * MS};
    while (nanosleep(&t, &t) != 0) {
    }
}

static timer_t make(int notify, int signal, int with) {
    struct sigevent event = {.sigev_notify = notify, .sigev_signo = signal, .sigev_value.sival_int = with};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) {
        printf("timer_create: %s\n", strerror(errno));
        exit(1);
    }
    return timer;
}

static void set(timer_t timer, long first, long interval) {
    struct itimerspec at = {.it_value = {first / (1000 * MS), first % (1000 * MS)}, .it_interval = {0, interval}};
    timer_settime(timer, 0, &at, NULL);
}

static void mask(int how, int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(how, &set, NULL);
}

static void until(volatile sig_atomic_t *what, int least) {
    while (*what < least) {
        rest(1);
    }
}

static void overruns(void) {
    listen_to(SIGUSR1);
    timer_t timer = make(SIGEV_SIGNAL, SIGUSR1, 77);
    mask(SIG_BLOCK, SIGUSR1);
    set(timer, MS, MS);
    rest(60);
    printf("blocked: %d, overruns so far %d\n", count[SIGUSR1], timer_getoverrun(timer));
    mask(SIG_UNBLOCK, SIGUSR1);
    printf("taken: code %d value %d, many overruns: %d\n", code, value, overrun >= 20 && overrun < 1000000);
    set(timer, 0, 0);
    count[SIGUSR1] = 0;
    overrun = 0;
    set(timer, 5 * MS, 0);
    until(count + SIGUSR1, 1);
    printf("once: overruns %d %d\n", overrun, timer_getoverrun(timer));
    /* One thread takes it by asking. */
    mask(SIG_BLOCK, SIGUSR1);
    set(timer, MS, MS);
    rest(30);
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    siginfo_t info;
    int got = sigwaitinfo(&wanted, &info);
    printf("asked for: signal %d, overruns %d, the same: %d\n", got == SIGUSR1, info.si_overrun >= 10, timer_getoverrun(timer) == info.si_overrun);
    int fd = signalfd(-1, &wanted, 0);
    rest(30);
    struct signalfd_siginfo record;
    printf("read: %d\n", read(fd, &record, sizeof record) == sizeof record && record.ssi_overrun >= 10);
    close(fd);
    timer_delete(timer);
    int gone = timer_getoverrun(timer);
    printf("deleted: %d %s\n", gone, strerror(errno));
    while (sigtimedwait(&wanted, NULL, &(struct timespec){0}) > 0) {
    }
    mask(SIG_UNBLOCK, SIGUSR1);
}

/* Each timer has its own signal, though it is one that does not queue. */
static void together(void) {
    enum { MANY = 20 };
    timer_t timers[MANY];
    listen_to(SIGUSR2);
    mask(SIG_BLOCK, SIGUSR2);
    for (int i = 0; i < MANY; i++) {
        timers[i] = make(SIGEV_SIGNAL, SIGUSR2, i);
        set(timers[i], 1, 0);
    }
    rest(20);
    mask(SIG_UNBLOCK, SIGUSR2);
    printf("together: %d\n", count[SIGUSR2]);
    for (int i = 0; i < MANY; i++) {
        timer_delete(timers[i]);
    }
}

enum { MANY = 64, TIMES = 3 };
static timer_t many[MANY];
static volatile sig_atomic_t times[MANY], ended;

/* (The program itself may not come to run before they are stopped.) */
static void stop(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)context;
    int which = info->si_value.sival_int;
    if (++times[which] == TIMES) {
        set(many[which], 0, 0);
        ended++;
    }
}

static void stop_interval(int signal) {
    if (++count[signal] % 100 == 0) {
        struct itimerval none = {0};
        setitimer(ITIMER_REAL, &none, NULL);
    }
}

/* Nanoseconds. */
static void shortest(void) {
    struct sigaction action = {.sa_sigaction = stop, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN, &action, NULL);
    for (int i = 0; i < MANY; i++) {
        many[i] = make(SIGEV_SIGNAL, SIGRTMIN, i);
    }
    for (int i = 0; i < MANY; i++) {
        set(many[i], 1, 1);
    }
    until(&ended, MANY);
    for (int i = 0; i < MANY; i++) {
        timer_delete(many[i]);
        if (times[i] < TIMES || times[i] > TIMES + 1) {
            printf("timer %d: %d\n", i, times[i]);
        }
    }
    puts("shortest: over");
    struct itimerval micro = {{0, 1}, {0, 1}};
    action.sa_handler = stop_interval;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &micro, NULL);
    until(count + SIGALRM, 100);
    mask(SIG_BLOCK, SIGALRM);
    setitimer(ITIMER_REAL, &micro, NULL);
    rest(20);
    int before = count[SIGALRM];
    mask(SIG_UNBLOCK, SIGALRM);
    until(count + SIGALRM, 200);
    printf("interval timer: %d\n", before < 103);
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec nano = {{0, 1}, {0, 1}};
    timerfd_settime(fd, 0, &nano, NULL);
    for (int i = 0; i < 100; i++) {
        unsigned long long expired;
        struct pollfd ready = {fd, POLLIN, 0};
        if (poll(&ready, 1, -1) != 1 || read(fd, &expired, sizeof expired) != sizeof expired || expired == 0) {
            puts("timerfd: nothing");
        }
    }
    close(fd);
    puts("timerfd: over");
}

static void ignored(void) {
    signal(SIGUSR1, SIG_IGN);
    count[SIGUSR1] = 0;
    timer_t timer = make(SIGEV_SIGNAL, SIGUSR1, 5);
    set(timer, 1, MS);
    rest(20);
    listen_to(SIGUSR1);
    until(count + SIGUSR1, 3);
    timer_delete(timer);
    puts("ignored, and then not");
    timer_t silent = make(SIGEV_NONE, 0, 0);
    set(silent, 3600 * 1000L * MS, 0);
    struct itimerspec left;
    timer_gettime(silent, &left);
    printf("silent: %d\n", left.it_value.tv_sec == 3599);
    set(silent, MS, 0);
    rest(5);
    timer_gettime(silent, &left);
    printf("silent: %ld %ld\n", left.it_value.tv_sec, left.it_value.tv_nsec);
    timer_delete(silent);
}

static timer_t own;
static volatile pid_t waits_as;
static volatile sig_atomic_t told;

static void *waits(void *nothing) {
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGRTMIN + 1);
    waits_as = syscall(SYS_gettid);
    for (int i = 0; i < 3; i++) {
        siginfo_t info;
        sigwaitinfo(&wanted, &info);
        told += info.si_value.sival_int;
    }
    return nothing;
}

/* The signal is one thread's, though others do not block it, and it would end the program. */
static void of_a_thread(void) {
    pthread_t thread;
    mask(SIG_BLOCK, SIGRTMIN + 1);
    pthread_create(&thread, NULL, waits, NULL);
    mask(SIG_UNBLOCK, SIGRTMIN + 1);
    while (waits_as == 0) {
        rest(1);
    }
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 1, .sigev_value.sival_int = 7};
    event.sigev_notify_thread_id = waits_as;
    timer_create(CLOCK_MONOTONIC, &event, &own);
    set(own, MS, MS);
    pthread_join(thread, NULL);
    timer_delete(own);
    printf("of a thread: %d\n", told);
    event.sigev_notify_thread_id = 1 << 29;
    int refused = timer_create(CLOCK_MONOTONIC, &event, &own);
    printf("of nobody: %d %s\n", refused, strerror(errno));
}

static volatile sig_atomic_t called;

static void call(union sigval with) { called += with.sival_int; }

static void by_threads(void) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = call, .sigev_value.sival_int = 1};
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    set(timer, MS, MS);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            _exit(i);
        }
        int status;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != i) {
            printf("child: %x\n", status);
        }
    }
    until(&called, 5);
    timer_delete(timer);
    puts("by threads: over");
}

/* Each clock by the C library, which asks the vDSO, and by the call itself; those of processor time go on while one works. */
static void read_clocks(const char *who) {
    struct timespec first, then, resolution;
    clockid_t own, theirs;
    printf("%s:", who);
    for (int i = -1; i < 13; i++) {
        int got = clock_gettime(i, &first), called = syscall(SYS_clock_gettime, i, &then);
        printf(" %d%d%d", !got, !called, !clock_getres(i, &resolution));
    }
    pthread_getcpuclockid(pthread_self(), &own);
    clock_getcpuclockid(0, &theirs);
    clockid_t clocks[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, own, theirs};
    for (int i = 0; i < 4; i++) {
        clock_gettime(clocks[i], &first);
        do {
            clock_gettime(clocks[i], &then);
        } while (then.tv_sec == first.tv_sec && then.tv_nsec - first.tv_nsec < 2 * MS);
        printf(" %s", clock_getres(clocks[i], &resolution) ? strerror(errno) : "goes on");
    }
    unsigned cpu = 99;
    printf(", core %s\n", sched_getcpu() >= 0 && syscall(SYS_getcpu, &cpu, NULL, NULL) == 0 && cpu < 64 ? "known" : "unknown");
}
static void *reads_clocks(void *argument) {
    read_clocks("thread");
    return argument;
}
/* Processor time of others: a thread that works, a child that works and one that is no more. */
static volatile int works = 1;
static void *work(void *argument) {
    while (works) {
    }
    return argument;
}
static const char *advances(clockid_t clock) {
    struct timespec first, then, resolution;
    if (clock_getres(clock, &resolution) != 0 || clock_gettime(clock, &first) != 0) {
        return strerror(errno);
    }
    for (int i = 0; i < 500; i++) {
        rest(10);
        clock_gettime(clock, &then);
        if (then.tv_sec > first.tv_sec || then.tv_nsec > first.tv_nsec) {
            return "goes on";
        }
    }
    return "stands";
}
static void others_clocks(void) {
    pthread_t thread;
    clockid_t clock;
    pthread_create(&thread, NULL, work, NULL);
    printf("clock of a thread: %d", pthread_getcpuclockid(thread, &clock));
    printf(" %s\n", advances(clock));
    works = 0;
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        works = 1;
        work(NULL);
    }
    printf("of a child: %d", clock_getcpuclockid(child, &clock));
    printf(" %s", advances(clock));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf(", gone: %s %d\n", advances(clock), clock_getcpuclockid(child, &clock) == ESRCH);
}

static void clocks(void) {
    pthread_t thread;
    read_clocks("main");
    pthread_create(&thread, NULL, reads_clocks, NULL);
    pthread_join(thread, NULL);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    clocks();
    others_clocks();
    overruns();
    together();
    shortest();
    ignored();
    of_a_thread();
    by_threads();
    return 0;
}
