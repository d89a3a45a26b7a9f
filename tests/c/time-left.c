/* What select, pselect and ppoll write back of their time: also when a signal comes, and of the longest time there is. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void caught(int signal) {
    (void)signal;
}

static void alarm_in(long us) {
    struct itimerval at = {.it_value = {0, us}};
    setitimer(ITIMER_REAL, &at, NULL);
}

static const char *left(long seconds, long wanted) {
    return seconds == wanted ? "all of it" : seconds < wanted && seconds > 0 ? "less" : seconds == 0 ? "none" : "strange";
}

static void each(const char *what, long seconds, int restarts) {
    struct sigaction action = {.sa_handler = caught, .sa_flags = restarts ? SA_RESTART : 0};
    sigaction(SIGALRM, &action, NULL);
    struct timeval tv = {seconds, 0};
    alarm_in(30000);
    long result = syscall(SYS_select, 0, NULL, NULL, NULL, &tv);
    printf("%s, select: %ld %s, %s\n", what, result, result < 0 ? strerror(errno) : "", left(tv.tv_sec, seconds));
    struct timespec ts = {seconds, 0};
    alarm_in(30000);
    result = syscall(SYS_pselect6, 0, NULL, NULL, NULL, &ts, NULL);
    printf("%s, pselect: %ld %s, %s\n", what, result, result < 0 ? strerror(errno) : "", left(ts.tv_sec, seconds));
    ts = (struct timespec){seconds, 0};
    alarm_in(30000);
    result = syscall(SYS_ppoll, NULL, 0, &ts, NULL, 0);
    printf("%s, ppoll: %ld %s, %s\n", what, result, result < 0 ? strerror(errno) : "", left(ts.tv_sec, seconds));
}

int main(void) {
    each("a minute", 60, 0);
    each("a minute, SA_RESTART", 60, 1);
    each("for ever", LONG_MAX, 0);
    struct timeval tv = {0, 20000};
    long result = syscall(SYS_select, 0, NULL, NULL, NULL, &tv);
    printf("over: %ld, %ld %ld\n", result, (long)tv.tv_sec, (long)tv.tv_usec);
    int pair[2];
    if (pipe(pair) || write(pair[1], "", 1) != 1) return 1;
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pair[0], &set);
    tv = (struct timeval){60, 0};
    result = syscall(SYS_select, pair[0] + 1, &set, NULL, NULL, &tv);
    printf("ready: %ld, %s\n", result, left(tv.tv_sec, 60));
    close(pair[0]);
    tv = (struct timeval){60, 0};
    result = syscall(SYS_select, pair[0] + 1, &set, NULL, NULL, &tv);
    printf("closed: %ld %s, %s\n", result, strerror(errno), left(tv.tv_sec, 60));
    signal(SIGCHLD, SIG_IGN);
    tv = (struct timeval){0, 0};
    result = syscall(SYS_select, 0, NULL, NULL, NULL, &tv);
    printf("no time: %ld, %ld %ld\n", result, (long)tv.tv_sec, (long)tv.tv_usec);
    return 0;
}
