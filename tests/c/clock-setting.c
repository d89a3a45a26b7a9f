/* The wall clock is set, forth and back: what follows it and what does not; adjtimex; who may. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct timespec at(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t;
}
static double seconds(struct timespec t) { return (double)t.tv_sec + (double)t.tv_nsec / 1e9; }
/* The wall clock beside the one that nobody sets. */
static double lead(void) { return seconds(at(CLOCK_REALTIME)) - seconds(at(CLOCK_MONOTONIC)); }
static int near(double a, double b) { return a > b - 30 && a < b + 30; }
static void tell(const char *what, long result) {
    if (result < 0) printf("%s: error %d\n", what, errno);
    else printf("%s: %ld\n", what, result);
}
static int forth(long by) {
    struct timespec now = at(CLOCK_REALTIME);
    now.tv_sec += by;
    return clock_settime(CLOCK_REALTIME, &now);
}

static void *sleeper(void *until) {
    clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, until, NULL);
    return NULL;
}

static void timers(void) {
    struct timespec now = at(CLOCK_REALTIME), wait = {5, 0};
    struct itimerspec later = {.it_value = {now.tv_sec + 1000, 0}}, left;
    struct itimerspec ahead = {.it_value = {1000, 0}};
    struct sigevent by_signal = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct sigevent quiet = {.sigev_notify = SIGEV_NONE};
    sigset_t set;
    uint64_t count = 0;
    timer_t time_of_day, steady;
    pthread_t thread;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    timer_create(CLOCK_REALTIME, &by_signal, &time_of_day);
    timer_settime(time_of_day, TIMER_ABSTIME, &later, NULL);
    timer_create(CLOCK_REALTIME, &quiet, &steady);
    timer_settime(steady, 0, &ahead, NULL);
    int follows = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK), cancels = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
    int relative = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
    timerfd_settime(follows, TFD_TIMER_ABSTIME, &later, NULL);
    struct itimerspec far = {.it_value = {now.tv_sec + 100000, 0}};
    timerfd_settime(cancels, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL);
    timerfd_settime(relative, 0, &ahead, NULL);
    pthread_create(&thread, NULL, sleeper, &later.it_value);
    timer_gettime(time_of_day, &left);
    printf("before: %d\n", near((double)left.it_value.tv_sec, 1000));

    tell("forth by an hour", forth(3600));
    tell("the signal comes", sigtimedwait(&set, NULL, &wait));
    struct pollfd both[] = {{follows, POLLIN, 0}, {cancels, POLLIN, 0}};
    int ready = 0;
    for (int i = 0; i < 50 && ready < 2; i++) {
        ready = poll(both, 2, 100);
        if (ready < 2) usleep(10000);
    }
    printf("ready: %d\n", ready);
    tell("what follows", read(follows, &count, 8));
    tell("what is cancelled", read(cancels, &count, 8));
    tell("once", read(cancels, &count, 8));
    tell("what is ahead", read(relative, &count, 8));
    timer_gettime(steady, &left);
    printf("ahead still: %d\n", near((double)left.it_value.tv_sec, 1000));
    timerfd_gettime(cancels, &left);
    printf("less an hour: %d\n", near((double)left.it_value.tv_sec, 100000 - 3600));
    pthread_join(thread, NULL);
    puts("the sleeper is up");
    tell("back by two hours", forth(-7200));
    timerfd_gettime(cancels, &left);
    printf("more by an hour: %d\n", near((double)left.it_value.tv_sec, 100000 + 3600));
    tell("forth again", forth(3600));
}

static void adjusting(void) {
    struct timex t = {.modes = ADJ_SETOFFSET, .time = {100, 0}};
    double before = lead();
    printf("adjtimex: %d\n", adjtimex(&t) >= 0);
    printf("forth by 100: %d\n", near(lead(), before + 100));
    t = (struct timex){.modes = ADJ_SETOFFSET | ADJ_NANO, .time = {-100, 0}};
    printf("clock_adjtime: %d\n", clock_adjtime(CLOCK_REALTIME, &t) >= 0);
    printf("back: %d\n", near(lead(), before));
    /* By this programs find out whether the mode is known (chronyd). */
    t = (struct timex){.modes = ADJ_MAXERROR};
    adjtimex(&t);
    printf("no error: %ld\n", t.maxerror / 100000);
    t = (struct timex){.modes = ADJ_SETOFFSET | ADJ_NANO};
    adjtimex(&t);
    printf("of a clock that was set: %ld, %ld, %d\n", t.maxerror, t.esterror, (t.status & STA_UNSYNC) != 0);
    t = (struct timex){.modes = ADJ_SETOFFSET | ADJ_NANO | ADJ_MAXERROR | ADJ_ESTERROR, .maxerror = 500, .esterror = 400};
    adjtimex(&t);
    printf("and then told: %ld, %ld\n", t.maxerror, t.esterror);
    t = (struct timex){.modes = ADJ_MICRO | ADJ_STATUS | ADJ_MAXERROR | ADJ_ESTERROR | ADJ_TIMECONST, .status = STA_PLL, .maxerror = 77, .esterror = 66, .constant = 3};
    tell("modes", adjtimex(&t));
    t = (struct timex){0};
    tell("asking", adjtimex(&t));
    printf("status %d, error %ld, %ld at most, constant %ld, tick %ld\n", t.status, t.esterror, t.maxerror / 100000, t.constant, t.tick);
    t = (struct timex){.modes = ADJ_FREQUENCY, .freq = 1 << 30};
    adjtimex(&t);
    t = (struct timex){0};
    adjtimex(&t);
    printf("at most %ld\n", t.freq);
    t = (struct timex){.modes = ADJ_FREQUENCY};
    adjtimex(&t);
    t = (struct timex){.modes = ADJ_TICK, .tick = 8999};
    tell("tick 8999", adjtimex(&t));
    t = (struct timex){.modes = ADJ_SETOFFSET, .time = {0, 1000000}};
    tell("offset of a million", adjtimex(&t));
    t = (struct timex){.modes = 0x8000};
    tell("half of a mode", adjtimex(&t));
    t = (struct timex){.modes = ADJ_STATUS, .status = STA_UNSYNC};
    tell("not followed", adjtimex(&t));
    struct timeval slew = {0, 0}, old;
    tell("adjtime", adjtime(&slew, &old));
}

static void refused(const char *who) {
    struct timespec now = at(CLOCK_REALTIME), wrong = {0, -1}, early = {1, 0}, late = {1L << 40, 0};
    struct timex t = {.modes = ADJ_STATUS};
    printf("-- %s\n", who);
    if (getuid()) tell("now", clock_settime(CLOCK_REALTIME, &now));
    tell("wrong", clock_settime(CLOCK_REALTIME, &wrong));
    tell("before the machine began", clock_settime(CLOCK_REALTIME, &early));
    tell("too late", clock_settime(CLOCK_REALTIME, &late));
    tell("the steady clock", clock_settime(CLOCK_MONOTONIC, &now));
    tell("no clock", clock_settime(77, &now));
    tell("nothing", syscall(SYS_settimeofday, NULL, NULL));
    if (getuid()) tell("adjtimex", adjtimex(&t));
    t.modes = 0;
    printf("asking: %d\n", adjtimex(&t) >= 0);
}

int main(void) {
    double before = lead();
    setvbuf(stdout, NULL, _IONBF, 0);
    timers();
    adjusting();
    printf("as before: %d\n", near(lead(), before));
    refused("user 0");
    if (fork() == 0) {
        setgid(1000);
        setuid(1000);
        refused("user 1000");
        _exit(0);
    }
    wait(NULL);
    return 0;
}
