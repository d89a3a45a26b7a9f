/* Where a signal may find a thread: in the vDSO, in a futex wait that is woken at the same time, in a wait with a mask of its own. cairn-test: cores=4 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* (musl has no linux/futex.h.) */
enum { FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129 };

static volatile sig_atomic_t caught;
static void count(int signal) {
    (void)signal;
    caught++;
}

static void in_the_vdso(void) {
    signal(SIGALRM, count);
    struct itimerval ticking = {.it_value = {0, 300}, .it_interval = {0, 300}}, none = {0};
    setitimer(ITIMER_REAL, &ticking, NULL);
    while (caught < 300) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        clock_gettime(CLOCK_REALTIME, &t);
        time(NULL);
    }
    setitimer(ITIMER_REAL, &none, NULL);
    puts("vDSO: went on after 300 signals");
}

enum { ROUNDS = 200 };
static int word, done;
static pid_t waiter;
static int missed;

static void *waits(void *nothing) {
    __atomic_store_n(&waiter, (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    for (int i = 0; i < ROUNDS; i++) {
        while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == i) {
            syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, i, NULL, NULL, 0);
        }
        /* It was sent before the word was changed. */
        missed += caught != i + 1;
        __atomic_store_n(&done, i + 1, __ATOMIC_SEQ_CST);
    }
    return nothing;
}

static void in_a_futex_wait(void) {
    caught = 0;
    signal(SIGUSR1, count);
    pthread_t thread;
    pthread_create(&thread, NULL, waits, NULL);
    while (__atomic_load_n(&waiter, __ATOMIC_SEQ_CST) == 0) {
        usleep(100);
    }
    for (int i = 0; i < ROUNDS; i++) {
        usleep(i % 2 ? 1000 : 0);
        syscall(SYS_tgkill, getpid(), waiter, SIGUSR1);
        __atomic_store_n(&word, i + 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) != i + 1) {
            usleep(50);
        }
    }
    pthread_join(thread, NULL);
    printf("futex: %d handlers of %d came late\n", missed, ROUNDS);
}

static char order[64];
static int nested;
static void say_mask(const char *when) {
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    printf("  %s:%s%s%s\n", when, sigismember(&now, SIGUSR1) ? " USR1" : "", sigismember(&now, SIGUSR2) ? " USR2" : "", sigismember(&now, SIGHUP) ? " HUP" : "");
}
static void handler(int signal) {
    strcat(order, signal == SIGUSR1 ? "1(" : signal == SIGUSR2 ? "2(" : "h(");
    say_mask("blocked in the handler");
    if (signal == SIGUSR1 && nested) {
        raise(SIGUSR2);
    }
    strcat(order, ")");
}

static int epoll;
static int wait_with(int how, const sigset_t *mask, int ms) {
    struct timespec at = {ms / 1000, ms % 1000 * 1000000}, *until = ms < 0 ? NULL : &at;
    struct epoll_event event;
    switch (how) {
    case 0:
        return sigsuspend(mask);
    case 1:
        return ppoll(NULL, 0, until, mask);
    case 2:
        return pselect(0, NULL, NULL, NULL, until, mask);
    default:
        return epoll_pwait(epoll, &event, 1, ms, mask);
    }
}

static void set(sigset_t *mask, int first, int second) {
    sigemptyset(mask);
    if (first) {
        sigaddset(mask, first);
    }
    if (second) {
        sigaddset(mask, second);
    }
}

static void with_a_mask(void) {
    const char *const names[] = {"sigsuspend", "ppoll", "pselect", "epoll_pwait"};
    epoll = epoll_create1(0);
    signal(SIGUSR1, handler);
    signal(SIGUSR2, handler);
    signal(SIGHUP, handler);
    for (int how = 0; how < 4; how++) {
        sigset_t old, temporary;
        /* One that the old mask blocks; another one that only the new mask blocks comes when the call is over. */
        set(&old, SIGUSR1, 0);
        set(&temporary, SIGUSR2, 0);
        sigprocmask(SIG_SETMASK, &old, NULL);
        order[0] = 0;
        nested = 1;
        raise(SIGUSR1);
        int result = wait_with(how, &temporary, -1), error = errno;
        printf("%s: %d %s, order %s\n", names[how], result, strerror(error), order);
        say_mask("blocked afterwards");
        /* Two that the old mask blocks: both come. */
        set(&old, SIGUSR1, SIGHUP);
        set(&temporary, 0, 0);
        sigprocmask(SIG_SETMASK, &old, NULL);
        order[0] = 0;
        nested = 0;
        raise(SIGUSR1);
        raise(SIGHUP);
        result = wait_with(how, &temporary, -1);
        printf("%s: %d %s, order %s\n", names[how], result, strerror(errno), order);
        say_mask("blocked afterwards");
        /* One that neither lets through stays. */
        set(&old, SIGUSR1, SIGHUP);
        set(&temporary, SIGHUP, 0);
        sigprocmask(SIG_SETMASK, &old, NULL);
        order[0] = 0;
        raise(SIGHUP);
        raise(SIGUSR1);
        result = wait_with(how, &temporary, -1);
        printf("%s: %d %s, order %s\n", names[how], result, strerror(errno), order);
        set(&temporary, 0, 0);
        sigprocmask(SIG_SETMASK, &temporary, NULL);
        printf("unblocked: order %s\n", order);
        if (how != 0) {
            /* Time is up before anything came. */
            sigprocmask(SIG_SETMASK, &old, NULL);
            printf("%s: %d", names[how], wait_with(how, &temporary, 10));
            say_mask(" blocked afterwards");
        }
    }
}

int main(void) {
    setbuf(stdout, NULL);
    in_the_vdso();
    in_a_futex_wait();
    with_a_mask();
    return 0;
}
