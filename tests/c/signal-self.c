/* Signals that a thread sends itself, by all calls: what the handler is told, registers and vector registers after it, masks, order, stops, other threads, children of fork and vfork. cairn-test: cores=4 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static siginfo_t last;
static volatile int count, order[16];
static uint64_t rax_seen;
static pthread_t ran_in;

static void note(int signal, siginfo_t *info, void *context) {
    last = *info;
    rax_seen = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX];
    ran_in = pthread_self();
    if (count < 16) {
        order[count] = signal;
    }
    count++;
}
static void nested(int signal, siginfo_t *info, void *context) {
    note(signal, info, context);
    if (count < 4) {
        kill(getpid(), SIGUSR2);
        printf("inside, after the call: %d\n", count);
    }
}
static void catch_with(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}
static void tell(const char *how, long result) {
    int zero = 1;
    for (size_t i = 32; i < sizeof last; i++) {
        zero &= ((char *)&last)[i] == 0;
    }
    printf("%s: result %ld, handler ran %d, signal %d code %d pid %d uid %d value %d, rest %s, rax %lu\n", how, result, count, last.si_signo, last.si_code,
           last.si_pid == getpid(), (int)last.si_uid, last.si_value.sival_int, zero ? "zero" : "not zero", rax_seen);
    memset(&last, 0xff, sizeof last);
    count = 0;
}

/* All registers that a call keeps, and a vector register, over a call in whose way back a handler runs. */
static int registers_kept(void) {
    uint64_t wrong;
    long result;
    __asm__ volatile("movq $0x1111, %%rbx\n movq $0x2222, %%r12\n movq $0x3333, %%r13\n movq $0x4444, %%r14\n movq $0x5555, %%r15\n"
                     "movq $0x6666, %%r8\n movq $0x7777, %%r9\n movq $0x8888, %%r10\n movq $0x9999, %%rdx\n movq %%rbx, %%xmm7\n"
                     "syscall\n"
                     "xorq $0x1111, %%rbx\n xorq $0x2222, %%r12\n xorq $0x3333, %%r13\n xorq $0x4444, %%r14\n xorq $0x5555, %%r15\n"
                     "xorq $0x6666, %%r8\n xorq $0x7777, %%r9\n xorq $0x8888, %%r10\n xorq $0x9999, %%rdx\n"
                     "orq %%r12, %%rbx\n orq %%r13, %%rbx\n orq %%r14, %%rbx\n orq %%r15, %%rbx\n orq %%r8, %%rbx\n orq %%r9, %%rbx\n orq %%r10, %%rbx\n orq %%rdx, %%rbx\n"
                     "movq %%xmm7, %%r8\n xorq $0x1111, %%r8\n orq %%r8, %%rbx\n movq %%rbx, %0\n"
                     : "=m"(wrong), "=a"(result)
                     : "a"(SYS_kill), "D"((long)getpid()), "S"((long)SIGUSR1)
                     : "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm7", "memory", "cc");
    return wrong == 0 && result == 0;
}

static sigjmp_buf back;
static void leap(int signal, siginfo_t *info, void *context) {
    note(signal, info, context);
    siglongjmp(back, 1);
}

static pthread_barrier_t ready, done;
static void *open_for_it(void *unused) {
    (void)unused;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&done);
    return NULL;
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    pid_t pid = getpid();
    catch_with(SIGUSR1, note, 0);
    catch_with(SIGRTMIN, note, 0);
    memset(&last, 0xff, sizeof last);
    tell("kill", kill(pid, SIGUSR1));
    tell("tkill", syscall(SYS_tkill, gettid(), SIGUSR1));
    tell("tgkill", syscall(SYS_tgkill, pid, gettid(), SIGUSR1));
    tell("raise", raise(SIGUSR1));
    tell("sigqueue", sigqueue(pid, SIGRTMIN, (union sigval){.sival_int = 77}));
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_code = SI_QUEUE;
    info.si_pid = pid;
    info.si_value.sival_int = 78;
    tell("rt_tgsigqueueinfo", syscall(SYS_rt_tgsigqueueinfo, pid, gettid(), SIGUSR1, &info));
    tell("kill 0", kill(pid, 0));
    printf("no such: %ld %s", syscall(SYS_tgkill, pid, pid + 77777, SIGUSR1), strerror(errno));
    printf(", %ld %s", syscall(SYS_tgkill, pid + 77777, gettid(), SIGUSR1), strerror(errno));
    printf(", %d %s", kill(pid, 65), strerror(errno));
    printf(", %d %s\n", kill(pid, -1), strerror(errno));
    int kept = registers_kept();
    printf("registers kept: %d, handler ran %d\n", kept, count);
    count = 0;

    /* In the handler the signal is blocked; with SA_NODEFER it is not. */
    catch_with(SIGUSR2, nested, 0);
    kill(pid, SIGUSR2);
    printf("deferred: %d\n", count);
    count = 0;
    catch_with(SIGUSR2, nested, SA_NODEFER);
    kill(pid, SIGUSR2);
    printf("not deferred: %d\n", count);
    count = 0;

    catch_with(SIGUSR2, note, SA_RESETHAND);
    kill(pid, SIGUSR2);
    struct sigaction now;
    sigaction(SIGUSR2, NULL, &now);
    printf("once: %d, then default %d\n", count, now.sa_handler == SIG_DFL);
    count = 0;

    /* Blocked: it waits, standard ones once, real-time ones each, the lowest first. */
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, &old);
    for (int i = 0; i < 2; i++) {
        sigqueue(pid, SIGRTMIN, (union sigval){.sival_int = i});
        kill(pid, SIGUSR1);
    }
    printf("blocked: %d", count);
    sigprocmask(SIG_SETMASK, &old, NULL);
    printf(", then %d:", count);
    for (int i = 0; i < count; i++) {
        printf(" %d", order[i]);
    }
    printf("\n");
    count = 0;

    /* Out of a handler by a jump, many times. */
    catch_with(SIGUSR2, leap, 0);
    for (volatile int i = 0; i < 1000; i++) {
        if (sigsetjmp(back, 1) == 0) {
            kill(pid, SIGUSR2);
            printf("came back\n");
        }
    }
    printf("left %d\n", count);
    count = 0;

    /* What stops and continues has its effect beside the handler. */
    catch_with(SIGCONT, note, 0);
    pid_t child = fork();
    if (child == 0) {
        kill(getpid(), SIGSTOP);
        kill(getpid(), SIGCONT);
        _exit(count * 100 + last.si_signo);
    }
    int status;
    waitpid(child, &status, WUNTRACED);
    printf("stopped: %d", WIFSTOPPED(status));
    kill(child, SIGCONT);
    waitpid(child, &status, 0);
    printf(", then %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);

    child = vfork();
    if (child == 0) {
        kill(getpid(), SIGUSR1);
        _exit(0);
    }
    waitpid(child, &status, 0);
    printf("vfork: %d, told the child's number %d\n", count, last.si_pid == child);
    count = 0;

    /* Whoever has it blocked leaves it to a thread that has not. */
    pthread_barrier_init(&ready, NULL, 2);
    pthread_barrier_init(&done, NULL, 2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pthread_t other;
    pthread_create(&other, NULL, open_for_it, NULL);
    pthread_barrier_wait(&ready);
    kill(pid, SIGUSR1);
    while (count == 0) {
        usleep(1000);
    }
    printf("another thread's: %d\n", count == 1 && pthread_equal(ran_in, other));
    pthread_barrier_wait(&done);
    pthread_join(other, NULL);
    return 0;
}
