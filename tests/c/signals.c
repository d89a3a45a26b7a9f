/* Signals: handlers, masks, restart, alternate stack, nested handlers, siginfo, timers, job control, SIGPIPE, ignored children. cairn-test: cores=4 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t seen[65], order[16], count;
static void note(int signal) {
    seen[signal]++;
    if (count < 16) {
        order[count++] = signal;
    }
}
static siginfo_t last;
static void note_info(int signal, siginfo_t *info, void *context) {
    (void)context;
    last = *info;
    note(signal);
}
static void catch_with(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}
static sigjmp_buf back;
static int deep;
static char *below;
/* Again and again on the same stack, until a frame does not fit any more. */
static void deeper(int signal) {
    if (++deep == 100 || below[0] || below[16383]) {
        _exit(1);
    }
    raise(signal);
}
static void leap(int signal) { siglongjmp(back, signal); }
static double computed;
static void compute(int signal) {
    computed = signal * 1.5;
    note(signal);
}

/* Each signal also leaves a byte here. */
static int ticks[2];
static void tick(int signal) {
    note(signal);
    (void)!write(ticks[1], "t", 1);
}

/* A timer interrupts a read again and again, so that it does not matter when the read begins. Nobody writes if that must end it; else somebody does after some signals. */
static void interrupted_read(int flags) {
    int p[2];
    char c;
    if (pipe(p) < 0 || pipe(ticks) < 0) {
        return;
    }
    catch_with(SIGALRM, tick, flags);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; flags == 0 || i < 5; i++) {
            (void)!read(ticks[0], &c, 1);
        }
        _exit(write(p[1], "z", 1) != 1);
    }
    struct itimerval ticking = {.it_value = {.tv_usec = 30000}, .it_interval = {.tv_usec = 30000}}, none = {0};
    setitimer(ITIMER_REAL, &ticking, NULL);
    ssize_t n = read(p[0], &c, 1);
    int error = errno;
    setitimer(ITIMER_REAL, &none, NULL);
    printf("read with flags %s: %zd %s\n", flags ? "restart" : "none", n, n < 0 ? strerror(error) : "");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (int i = 0; i < 2; i++) {
        close(p[i]);
        close(ticks[i]);
    }
}

/* Signals of exceptions before all others, then by number; also when nothing but a wait takes them. */
static void order_of_waiting(void) {
    static const int sent[] = {SIGTERM, SIGHUP, SIGUSR2, SIGSEGV, SIGCHLD, SIGBUS, SIGUSR1, SIGSYS};
    sigset_t all, old;
    struct timespec now = {0, 0};
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    for (int round = 0; round < 2; round++) {
        printf("order:");
        for (unsigned i = 0; i < sizeof sent / sizeof *sent; i++) {
            union sigval value = {.sival_int = i};
            round == 0 ? kill(getpid(), sent[i]) : sigqueue(getpid(), sent[i], value);
        }
        for (int signal; (signal = sigtimedwait(&all, NULL, &now)) > 0;) {
            printf(" %d", signal);
        }
        puts("");
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    union sigval none = {.sival_int = 0};
    int result = sigqueue(-1, SIGUSR1, none);
    printf("to no process: %d %s\n", result, strerror(errno));
}

/* What no kernel knows is not told back. */
static void forgotten_flags(void) {
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART | 0x400 | 0x800 | 0x200}, then;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR1, NULL, &then);
    printf("flags %x\n", then.sa_flags & ~0x04000000);
}

int main(void) {
    setbuf(stdout, NULL);
    catch_with(SIGUSR1, note, 0);
    raise(SIGUSR1);
    printf("handled %d\n", seen[SIGUSR1]);

    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    catch_with(SIGUSR2, note, 0);
    sigprocmask(SIG_BLOCK, &set, &old);
    raise(SIGUSR2);
    raise(SIGUSR1);
    raise(SIGUSR1);
    sigpending(&set);
    printf("pending %d %d, handled %d %d\n", sigismember(&set, SIGUSR1), sigismember(&set, SIGUSR2), seen[SIGUSR1], seen[SIGUSR2]);
    sigprocmask(SIG_SETMASK, &old, NULL);
    printf("unblocked: handled %d %d\n", seen[SIGUSR1], seen[SIGUSR2]);

    interrupted_read(0);
    interrupted_read(SA_RESTART);

    struct sigaction info = {.sa_sigaction = note_info, .sa_flags = SA_SIGINFO};
    sigaction(SIGRTMIN, &info, NULL);
    union sigval value = {.sival_int = 77};
    sigqueue(getpid(), SIGRTMIN, value);
    printf("queued: code %d value %d pid %s\n", last.si_code, last.si_value.sival_int, last.si_pid == getpid() ? "own" : "other");
    info.sa_flags |= SA_NOCLDSTOP;
    sigaction(SIGCHLD, &info, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(9);
    }
    while (!seen[SIGCHLD]) {
        usleep(1000);
    }
    printf("child: code %d status %d pid %s\n", last.si_code, last.si_status, last.si_pid == pid ? "right" : "wrong");
    waitpid(pid, NULL, 0);

    if (sigsetjmp(back, 1) == 0) {
        catch_with(SIGSEGV, leap, 0);
        *(volatile int *)16 = 1;
    } else {
        puts("leapt out of a fault");
    }

    double x = 3.25;
    catch_with(SIGVTALRM, compute, 0);
    raise(SIGVTALRM);
    printf("float %g %g\n", x * 2, computed);

    struct itimerval ticking = {.it_value = {.tv_usec = 5000}, .it_interval = {.tv_usec = 5000}};
    catch_with(SIGALRM, note, SA_RESTART);
    seen[SIGALRM] = 0;
    setitimer(ITIMER_REAL, &ticking, NULL);
    volatile unsigned long work = 0;
    while (seen[SIGALRM] < 5) {
        work++;
    }
    memset(&ticking, 0, sizeof ticking);
    setitimer(ITIMER_REAL, &ticking, NULL);
    puts("five ticks");

    pid = fork();
    if (pid == 0) {
        for (;;) {
            pause();
        }
    }
    int status;
    kill(pid, SIGSTOP);
    waitpid(pid, &status, WUNTRACED);
    printf("stopped %d by %d\n", WIFSTOPPED(status), WSTOPSIG(status));
    kill(pid, SIGCONT);
    waitpid(pid, &status, WCONTINUED);
    printf("continued %d\n", WIFCONTINUED(status) != 0);
    kill(pid, SIGTERM);
    waitpid(pid, &status, 0);
    printf("ended by %d\n", WTERMSIG(status));

    int p[2];
    if (pipe(p) == 0) {
        close(p[0]);
        catch_with(SIGPIPE, note, 0);
        ssize_t n = write(p[1], "x", 1);
        printf("broken pipe: %zd %d, signal %d\n", n, errno == EPIPE, seen[SIGPIPE]);
        pid = fork();
        if (pid == 0) {
            signal(SIGPIPE, SIG_DFL);
            _exit(write(p[1], "x", 1) == 1);
        }
        waitpid(pid, &status, 0);
        printf("killed by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }

    signal(SIGCHLD, SIG_IGN);
    if (fork() == 0) {
        _exit(0);
    }
    int result = wait(&status);
    printf("ignored child: %d %s\n", result, strerror(errno));

    signal(SIGCHLD, SIG_DFL);
    below = calloc(3, 16384);
    for (int on = 0; on < 2; on++) {
        pid_t one = fork();
        if (one == 0) {
            stack_t stack = {.ss_sp = below + 16384, .ss_size = 16384};
            printf("stack: %d\n", sigaltstack(&stack, NULL));
            fflush(stdout);
            catch_with(SIGUSR1, deeper, SA_ONSTACK | SA_NODEFER);
            /* The handler of the fault has no room there either. */
            catch_with(SIGSEGV, on ? deeper : SIG_DFL, 0);
            raise(SIGUSR1);
            _exit(2);
        }
        waitpid(one, &status, 0);
        printf("too deep on its own stack: killed by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }

    sigset_t empty;
    sigemptyset(&empty);
    catch_with(SIGALRM, note, 0);
    /* Blocked until it is waited for, however late that is. */
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    alarm(1);
    result = sigsuspend(&empty);
    printf("sigsuspend: %d %s\n", result, strerror(errno));
    order_of_waiting();
    forgotten_flags();
    return 0;
}
