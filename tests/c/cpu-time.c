/* Timers of processor time: ITIMER_VIRTUAL, ITIMER_PROF, POSIX timers of the CPU-time clocks, RLIMIT_CPU. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int seen[65];
static void note(int signal) { seen[signal]++; }

static long long now(clockid_t clock) {
    struct timespec it;
    clock_gettime(clock, &it);
    return it.tv_sec * 1000000000LL + it.tv_nsec;
}
/* Work until the signal came, for 5 seconds of processor time at most: how many ms were used since `from`, when the timer was set. (Not since the work began: a
   virtual machine whose host is busy uses time that no program sees.) */
static long long from;
static long long work_until(int signal) {
    long long begun = now(CLOCK_PROCESS_CPUTIME_ID);
    while (!seen[signal] && now(CLOCK_PROCESS_CPUTIME_ID) - begun < 5000000000LL) {
    }
    return (now(CLOCK_PROCESS_CPUTIME_ID) - from) / 1000000;
}
static void *sleep_long(void *unused) {
    (void)unused;
    usleep(300000);
    return NULL;
}
static volatile int over;
static void *work_on(void *unused) {
    (void)unused;
    while (!over) {
    }
    return NULL;
}
static const char *when(long long ms, long long least) { return ms < least ? "too early" : ms > least + 3000 ? "too late" : "in time"; }

int main(void) {
    signal(SIGVTALRM, note);
    signal(SIGPROF, note);
    signal(SIGUSR1, note);
    signal(SIGXCPU, note);
    struct itimerval value = {.it_value = {0, 60000}, .it_interval = {0, 30000}}, old;
    from = now(CLOCK_PROCESS_CPUTIME_ID);
    printf("%d %d\n", setitimer(ITIMER_PROF, &value, NULL), getitimer(ITIMER_PROF, &old));
    printf("left: %d, interval %ld\n", old.it_value.tv_sec == 0 && old.it_value.tv_usec > 20000, (long)old.it_interval.tv_usec);
    usleep(150000);
    printf("asleep: %d\n", seen[SIGPROF]);
    printf("%s\n", when(work_until(SIGPROF), 40));
    seen[SIGPROF] = 0;
    printf("again %s\n", when(work_until(SIGPROF), 70));
    memset(&value, 0, sizeof value);
    printf("%d, interval was %ld\n", setitimer(ITIMER_PROF, &value, &old), (long)old.it_interval.tv_usec);
    value.it_value.tv_usec = 50000;
    from = now(CLOCK_PROCESS_CPUTIME_ID);
    setitimer(ITIMER_VIRTUAL, &value, NULL);
    printf("virtual %s\n", when(work_until(SIGVTALRM), 0));
    printf("%d %s\n", setitimer(3, &value, NULL), strerror(errno));

    /* A child has none. */
    value.it_value.tv_usec = 10000;
    setitimer(ITIMER_PROF, &value, NULL);
    int status;
    if (fork() == 0) {
        getitimer(ITIMER_PROF, &old);
        _exit(old.it_value.tv_usec == 0 && old.it_value.tv_sec == 0);
    }
    wait(&status);
    printf("child: %d\n", WEXITSTATUS(status));
    memset(&value, 0, sizeof value);
    setitimer(ITIMER_PROF, &value, NULL);

    for (int kind = 0; kind < 3; kind++) {
        clockid_t clock = kind == 0 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_THREAD_CPUTIME_ID;
        if (kind == 2) {
            pthread_getcpuclockid(pthread_self(), &clock);
        }
        timer_t timer;
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        struct itimerspec spec = {.it_value = {0, 40000000}};
        seen[SIGUSR1] = 0;
        from = now(CLOCK_PROCESS_CPUTIME_ID);
        printf("create %d", timer_create(clock, &event, &timer));
        printf(", set %d", timer_settime(timer, 0, &spec, NULL));
        usleep(100000);
        printf(", asleep %d", seen[SIGUSR1]);
        printf(", %s", when(work_until(SIGUSR1), 30));
        struct itimerspec left;
        printf(", get %d", timer_gettime(timer, &left));
        printf(", left %ld, delete %d\n", left.it_value.tv_nsec, timer_delete(timer));
    }
    /* Another thread's time is not this one's. */
    pthread_t other;
    pthread_create(&other, NULL, sleep_long, NULL);
    clockid_t clock;
    pthread_getcpuclockid(other, &clock);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer);
    struct itimerspec spec = {.it_value = {0, 1}};
    seen[SIGUSR1] = 0;
    from = now(CLOCK_PROCESS_CPUTIME_ID);
    timer_settime(timer, TIMER_ABSTIME, &spec, NULL);
    printf("long ago: %s\n", when(work_until(SIGUSR1), 0));
    timer_delete(timer);
    pthread_join(other, NULL);

    /* A sleep on the process's clock is over when others have worked so long. */
    struct timespec span = {0, 60000000}, past = {0, 1};
    pthread_create(&other, NULL, work_on, NULL);
    from = now(CLOCK_PROCESS_CPUTIME_ID);
    int slept = clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &span, NULL);
    printf("slept %d, %s\n", slept, when((now(CLOCK_PROCESS_CPUTIME_ID) - from) / 1000000, 60));
    over = 1;
    pthread_join(other, NULL);
    printf("past %d\n", clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, TIMER_ABSTIME, &past, NULL));
    pthread_getcpuclockid(pthread_self(), &clock);
    printf("own thread: %s\n", strerror(clock_nanosleep(clock, 0, &span, NULL)));

    if (fork() == 0) {
        struct rlimit limit = {1, 2};
        printf("limit %d\n", setrlimit(RLIMIT_CPU, &limit));
        seen[SIGXCPU] = 0;
        from = 0;
        printf("told %s\n", when(work_until(SIGXCPU), 700));
        fflush(stdout);
        for (;;) {
        }
    }
    fflush(stdout);
    wait(&status);
    printf("ended by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return 0;
}
