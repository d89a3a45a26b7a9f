/* ptrace(2): who may trace whom, stops and what is told of them, registers and memory, signals that are changed or forgotten, children that are traced as well, single steps, and the end of tracer or tracee. */
// cairn-test: time=60
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENT(status) ((status) >> 16)
#define SYSCALL_INFO 0x420e

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    fflush(stdout);
    _exit(9);
}

static long trace(int request, pid_t pid, void *address, void *data) {
    return syscall(SYS_ptrace, (long)request, (long)pid, address, data);
}

static const char *result(long value) {
    return value >= 0 ? "ok" : strerror(errno);
}

/* Wait for a tracee; say how it is. */
static int told(const char *what, pid_t pid) {
    int status = 0;
    pid_t got = waitpid(pid, &status, __WALL);
    if (got < 0)
        printf("%s: %s\n", what, strerror(errno));
    else if (WIFSTOPPED(status))
        printf("%s: stopped by %d%s, event %d\n", what, WSTOPSIG(status) & 0x7f, WSTOPSIG(status) & 0x80 ? " (call)" : "", EVENT(status));
    else if (WIFEXITED(status))
        printf("%s: ended with %d\n", what, WEXITSTATUS(status));
    else
        printf("%s: killed by %d\n", what, WTERMSIG(status));
    fflush(stdout);
    return status;
}

static void say(const char *what, long value) {
    printf("%s: %s\n", what, result(value));
    fflush(stdout);
}

static void go(const char *what, int request, pid_t pid, long signal) {
    if (trace(request, pid, NULL, (void *)signal) < 0)
        fail(what);
}

static volatile long words[4] = {11, 22, 33, 44};
static volatile sig_atomic_t handled;

static void handler(int signal, siginfo_t *info, void *context) {
    (void)context;
    handled = handled * 100 + signal;
    if (info->si_code == SI_QUEUE)
        handled = handled * 100 + info->si_value.sival_int;
}

static void catch(int signal) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(signal, &action, NULL);
}

static pid_t begin(int (*run)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (trace(PTRACE_TRACEME, 0, NULL, NULL))
            fail("TRACEME");
        raise(SIGSTOP);
        _exit(run());
    }
    return pid;
}

/* System calls, entry and exit, with numbers, arguments and results; one that is not made, one that is another. */
static int calls(void) {
    long pid = getpid();
    long a = syscall(SYS_getppid);
    long b = syscall(SYS_close, 987);
    long c = syscall(SYS_getuid, 1, 2, 3, 4, 5, 6);
    long d = syscall(SYS_getuid);
    return (pid > 0 && a > 0) + 2 * (b == -1 && errno == EBADF) + 4 * (c == 77) + 8 * (d == pid);
}

static void test_calls(void) {
    pid_t pid = begin(calls);
    told("calls begin", pid);
    say("ATTACH as well", trace(PTRACE_ATTACH, pid, NULL, NULL));
    say("options", trace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD));
    say("wrong options", trace(PTRACE_SETOPTIONS, pid, NULL, (void *)0x40000000L));
    int count = 0;
    for (int entry = 1;; entry = !entry) {
        struct user_regs_struct regs;
        int status;
        go("SYSCALL", PTRACE_SYSCALL, pid, 0);
        if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) {
            printf("calls ended with %d after %d stops\n", WEXITSTATUS(status), count);
            break;
        }
        count++;
        if (WSTOPSIG(status) != (SIGTRAP | 0x80))
            printf("another stop: %x\n", status);
        if (trace(PTRACE_GETREGS, pid, NULL, &regs))
            fail("GETREGS");
        struct {
            uint8_t op, pad[3];
            uint32_t arch;
            uint64_t ip, sp;
            union {
                struct {
                    uint64_t nr, args[6];
                } entry;
                struct {
                    int64_t value;
                    uint8_t error;
                } exit;
            };
        } info;
        memset(&info, 0, sizeof info);
        long length = trace(SYSCALL_INFO, pid, (void *)sizeof info, &info);
        long number = regs.orig_rax;
        if (number == SYS_getppid || number == SYS_close || number == SYS_getuid || number == SYS_getpid) {
            printf("%s of %ld: op %d, %ld bytes, arch %x, places %s", entry ? "entry" : "exit", number, info.op, length, info.arch, info.ip == regs.rip && info.sp == regs.rsp ? "alike" : "differ");
            if (entry)
                printf(", rax %ld, number %ld, arguments %ld %ld\n", (long)regs.rax, (long)info.entry.nr, (long)(number == SYS_close ? info.entry.args[0] : 0), (long)(number == SYS_close ? regs.rdi : 0));
            else
                printf(", error %d, value %s\n", info.exit.error, info.exit.value == (int64_t)regs.rax ? "alike" : "differs");
        }
        static int users;
        if (number == SYS_getuid && entry && ++users == 1) {
            /* Not made: its result is what the register says. */
            regs.orig_rax = -1;
            regs.rax = 77;
            if (trace(PTRACE_SETREGS, pid, NULL, &regs))
                fail("SETREGS");
        } else if (number == SYS_getuid && entry) {
            if (trace(PTRACE_POKEUSER, pid, (void *)(15 * 8L), (void *)(long)SYS_getpid))
                fail("POKEUSER");
        }
    }
}

/* Memory and registers. */
static int memory(void) {
    register long kept asm("r12") = 5;
    asm volatile("mov $0x1234, %%rbx\n\tint3\n\tmov %%rbx, %0" : "=r"(kept) : : "rbx", "memory");
    return (kept == 0x4321) + 2 * (words[1] == 99) + 4 * (words[2] == 77) + 8 * (words[3] == 88);
}

static void test_memory(void) {
    pid_t pid = begin(memory);
    told("memory begins", pid);
    long word = 0;
    say("PEEK", trace(PTRACE_PEEKDATA, pid, (void *)&words[0], &word));
    printf("%ld\n", word);
    say("PEEK nowhere", trace(PTRACE_PEEKDATA, pid, (void *)8, &word));
    say("POKE nowhere", trace(PTRACE_POKEDATA, pid, (void *)8, (void *)1));
    trace(PTRACE_POKEDATA, pid, (void *)&words[1], (void *)99);
    long own[2] = {77, 88}, back[4] = {0};
    struct iovec near = {own, sizeof own}, far = {(void *)&words[2], sizeof own};
    printf("writev %zd", process_vm_writev(pid, &near, 1, &far, 1, 0));
    near = (struct iovec){back, sizeof back};
    far = (struct iovec){(void *)words, sizeof back};
    printf(", readv %zd:", process_vm_readv(pid, &near, 1, &far, 1, 0));
    printf(" %ld %ld %ld %ld", back[0], back[1], back[2], back[3]);
    far.iov_base = (void *)8;
    printf(", nowhere %s\n", result(process_vm_readv(pid, &near, 1, &far, 1, 0)));
    /* Text, which the program itself may not write. */
    long text;
    trace(PTRACE_PEEKTEXT, pid, (void *)memory, &text);
    printf("text is %s", text == *(long *)memory ? "alike" : "another");
    printf(", POKETEXT %s", result(trace(PTRACE_POKETEXT, pid, (void *)memory, (void *)(text ^ 0xff))));
    trace(PTRACE_PEEKTEXT, pid, (void *)memory, &word);
    printf(" %lx, ours %s", (word ^ text) & 0xffff, text == *(long *)memory ? "is kept" : "is changed");
    printf(", back %s\n", result(trace(PTRACE_POKETEXT, pid, (void *)memory, (void *)text)));
    go("CONT", PTRACE_CONT, pid, 0);
    told("int3", pid);
    struct user_regs_struct regs, again[2];
    siginfo_t info;
    trace(PTRACE_GETREGS, pid, NULL, &regs);
    trace(PTRACE_PEEKTEXT, pid, (void *)(regs.rip - 1), &word);
    printf("behind %lx, rbx %llx, orig_rax %lld, cs %llx, ss %llx", word & 0xff, regs.rbx, regs.orig_rax, regs.cs, regs.ss);
    trace(PTRACE_GETSIGINFO, pid, NULL, &info);
    printf(", signal %d, code %x\n", info.si_signo, info.si_code);
    regs.rbx = 0x4321;
    struct iovec set = {&regs, sizeof regs};
    say("SETREGSET", trace(PTRACE_SETREGSET, pid, (void *)NT_PRSTATUS, &set));
    set = (struct iovec){again, sizeof again};
    say("GETREGSET", trace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &set));
    printf("%zu bytes, %s\n", set.iov_len, memcmp(&regs, again, sizeof regs) ? "another" : "alike");
    say("unknown set", trace(PTRACE_GETREGSET, pid, (void *)0x777, &set));
    struct user_fpregs_struct floats;
    say("GETFPREGS", trace(PTRACE_GETFPREGS, pid, NULL, &floats));
    printf("control %x, mxcsr %x\n", floats.cwd, floats.mxcsr);
    say("PEEKUSER beyond", trace(PTRACE_PEEKUSER, pid, (void *)4096, &word));
    say("PEEKUSER unaligned", trace(PTRACE_PEEKUSER, pid, (void *)3, &word));
    go("CONT", PTRACE_CONT, pid, 0);
    told("memory", pid);
}

/* Signals: delivered, forgotten, another one, with other information; masks. */
static int signals(void) {
    catch(SIGUSR1);
    catch(SIGUSR2);
    raise(SIGUSR1);
    long first = handled;
    handled = 0;
    raise(SIGUSR1);
    long second = handled;
    handled = 0;
    raise(SIGUSR1);
    long third = handled;
    handled = 0;
    sigqueue(getpid(), SIGUSR2, (union sigval){.sival_int = 5});
    long fourth = handled;
    handled = 0;
    signal(SIGCHLD, SIG_IGN);
    raise(SIGCHLD);
    sigset_t set;
    sigprocmask(0, NULL, &set);
    return (first == 10) + 2 * (second == 0) + 4 * (third == 12) + 8 * (fourth == 1207) + 16 * sigismember(&set, SIGHUP);
}

static void test_signals(void) {
    pid_t pid = begin(signals);
    siginfo_t info;
    told("signals begin", pid);
    go("CONT", PTRACE_CONT, pid, 0);
    told("first", pid);
    trace(PTRACE_GETSIGINFO, pid, NULL, &info);
    printf("signal %d, code %d, from it %d\n", info.si_signo, info.si_code, info.si_pid == pid);
    go("CONT", PTRACE_CONT, pid, SIGUSR1);
    told("second", pid);
    go("CONT", PTRACE_CONT, pid, 0);
    told("third", pid);
    printf("a wrong signal is %s\n", result(trace(PTRACE_CONT, pid, NULL, (void *)65L)));
    go("CONT", PTRACE_CONT, pid, SIGUSR2);
    told("fourth", pid);
    trace(PTRACE_GETSIGINFO, pid, NULL, &info);
    printf("code %d, value %d\n", info.si_code, info.si_value.sival_int);
    info.si_value.sival_int = 7;
    trace(PTRACE_SETSIGINFO, pid, NULL, &info);
    go("CONT", PTRACE_CONT, pid, SIGUSR2);
    told("ignored", pid);
    uint64_t mask = 0;
    say("GETSIGMASK", trace(PTRACE_GETSIGMASK, pid, (void *)8, &mask));
    printf("%lx\n", (long)mask);
    mask |= 1 << (SIGHUP - 1);
    say("SETSIGMASK", trace(PTRACE_SETSIGMASK, pid, (void *)8, &mask));
    say("SETSIGMASK of another size", trace(PTRACE_SETSIGMASK, pid, (void *)4, &mask));
    go("CONT", PTRACE_CONT, pid, SIGCHLD);
    told("signals", pid);
}

/* Children of tracees, exec and exit. */
static int children(void) {
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    int status;
    waitpid(child, &status, 0);
    child = vfork();
    if (child == 0)
        _exit(4);
    waitpid(child, &status, 0);
    execl("/proc/self/exe", "traced", "executed", NULL);
    return 1;
}

static void test_children(void) {
    pid_t pid = begin(children), child = 0;
    told("children begin", pid);
    long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEVFORKDONE | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;
    if (trace(PTRACE_SETOPTIONS, pid, NULL, (void *)options))
        fail("SETOPTIONS");
    go("CONT", PTRACE_CONT, pid, 0);
    for (;;) {
        char name[40];
        unsigned long message = 0;
        int status = told("parent", pid);
        if (!WIFSTOPPED(status))
            break;
        int event = EVENT(status);
        if (event && event != PTRACE_EVENT_EXIT) {
            trace(PTRACE_GETEVENTMSG, pid, NULL, &message);
            printf("the message is %s\n", message == (unsigned long)pid ? "itself" : message == (unsigned long)child ? "the same child" : "a child");
        }
        if (event == PTRACE_EVENT_EXIT) {
            trace(PTRACE_GETEVENTMSG, pid, NULL, &message);
            printf("it ends with %lx\n", message);
        }
        if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK) {
            child = message;
            told("child", child);
            go("CONT child", PTRACE_CONT, child, 0);
            snprintf(name, sizeof name, "child of %s", event == PTRACE_EVENT_FORK ? "fork" : "vfork");
            told(name, child);
            trace(PTRACE_GETEVENTMSG, child, NULL, &message);
            printf("it ends with %lx\n", message);
            go("CONT child", PTRACE_CONT, child, 0);
            told(name, child);
        }
        go("CONT", PTRACE_CONT, pid, WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status));
    }
}

/* exec without options; single steps. */
static int executes(void) {
    execl("/proc/self/exe", "traced", "executed", NULL);
    return 1;
}

static void test_exec(void) {
    pid_t pid = begin(executes);
    told("exec begins", pid);
    go("CONT", PTRACE_CONT, pid, 0);
    told("executed", pid);
    go("CONT", PTRACE_CONT, pid, 0);
    told("executed", pid);
}

static int steps(void) {
    long sum = 0;
    asm volatile("int3\n\tmov $100, %%ecx\n\tmov $39, %%eax\n\tsyscall\n\tnop\n\tnop\n\tint3" : "=a"(sum) : : "rcx", "r11", "memory");
    return sum == getpid() ? 6 : 7;
}

static void test_steps(void) {
    pid_t pid = begin(steps);
    struct user_regs_struct regs;
    told("steps begin", pid);
    go("CONT", PTRACE_CONT, pid, 0);
    told("int3", pid);
    trace(PTRACE_GETREGS, pid, NULL, &regs);
    unsigned long first = regs.rip;
    for (int i = 0; i < 6; i++) {
        siginfo_t info;
        int status;
        go("STEP", PTRACE_SINGLESTEP, pid, 0);
        waitpid(pid, &status, 0);
        trace(PTRACE_GETREGS, pid, NULL, &regs);
        trace(PTRACE_GETSIGINFO, pid, NULL, &info);
        printf("step: %d at %ld, flag %lld, signal %d\n", WSTOPSIG(status), (long)(regs.rip - first), regs.eflags & 0x100, info.si_signo);
    }
    go("CONT", PTRACE_CONT, pid, 0);
    told("steps", pid);
}

/* Attaching, seizing, interrupting, group stops, detaching, the tracer's end. */
static pid_t sleeper(void) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        for (;;)
            pause();
    }
    return pid;
}

static void test_attach(void) {
    pid_t pid = sleeper();
    unsigned long message;
    say("CONT of a stranger", trace(PTRACE_CONT, pid, NULL, NULL));
    say("ATTACH", trace(PTRACE_ATTACH, pid, NULL, NULL));
    say("ATTACH twice", trace(PTRACE_ATTACH, pid, NULL, NULL));
    told("attached", pid);
    say("INTERRUPT", trace(PTRACE_INTERRUPT, pid, NULL, NULL));
    say("LISTEN", trace(PTRACE_LISTEN, pid, NULL, NULL));
    go("CONT", PTRACE_CONT, pid, SIGSTOP);
    told("group stop", pid);
    go("CONT", PTRACE_CONT, pid, 0);
    kill(pid, SIGUSR1);
    told("signalled", pid);
    say("DETACH", trace(PTRACE_DETACH, pid, NULL, NULL));
    say("then CONT", trace(PTRACE_CONT, pid, NULL, NULL));
    kill(pid, SIGKILL);
    told("killed", pid);
    pid = sleeper();
    say("SEIZE with an address", trace(PTRACE_SEIZE, pid, (void *)1, NULL));
    say("SEIZE", trace(PTRACE_SEIZE, pid, NULL, (void *)(long)PTRACE_O_TRACESYSGOOD));
    say("running", trace(PTRACE_GETEVENTMSG, pid, NULL, &message));
    trace(PTRACE_INTERRUPT, pid, NULL, NULL);
    told("interrupted", pid);
    go("CONT", PTRACE_CONT, pid, 0);
    kill(pid, SIGSTOP);
    told("stop signal", pid);
    go("CONT", PTRACE_CONT, pid, SIGSTOP);
    told("group stop", pid);
    siginfo_t info;
    say("GETSIGINFO", trace(PTRACE_GETSIGINFO, pid, NULL, &info));
    go("LISTEN", PTRACE_LISTEN, pid, 0);
    kill(pid, SIGCONT);
    told("continued", pid);
    go("CONT", PTRACE_CONT, pid, 0);
    told("SIGCONT", pid);
    go("CONT", PTRACE_CONT, pid, SIGCONT);
    kill(pid, SIGKILL);
    told("killed", pid);
    pid = begin(memory);
    told("KILL begins", pid);
    printf("KILL %s\n", result(trace(PTRACE_KILL, pid, NULL, NULL)));
    told("KILL", pid);
}

static void test_tracers_end(void) {
    for (int kill_too = 0; kill_too < 2; kill_too++) {
        pid_t victim = sleeper();
        pid_t tracer = fork();
        if (tracer == 0) {
            int status;
            trace(PTRACE_SEIZE, victim, NULL, (void *)(long)(kill_too ? PTRACE_O_EXITKILL : 0));
            trace(PTRACE_INTERRUPT, victim, NULL, NULL);
            waitpid(victim, &status, __WALL);
            _exit(WIFSTOPPED(status) ? 5 : 6);
        }
        int status;
        waitpid(tracer, &status, 0);
        printf("the tracer ended with %d", WEXITSTATUS(status));
        if (!kill_too) {
            printf(", the other lives: %d", kill(victim, 0));
            kill(victim, SIGTERM);
        }
        waitpid(victim, &status, 0);
        printf(", then ends by %d\n", WTERMSIG(status));
    }
}

static void *second(void *unused) {
    (void)unused;
    syscall(SYS_close, 555);
    return NULL;
}

static int threads(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, second, NULL);
    pthread_join(thread, NULL);
    /* (It has been joined a little before its end.) */
    usleep(300000);
    return 12;
}

static void test_threads(void) {
    pid_t pid = begin(threads);
    told("threads begin", pid);
    trace(PTRACE_SETOPTIONS, pid, NULL, (void *)(long)PTRACE_O_TRACECLONE);
    go("CONT", PTRACE_CONT, pid, 0);
    told("clone", pid);
    unsigned long tid = 0;
    trace(PTRACE_GETEVENTMSG, pid, NULL, &tid);
    told("thread", tid);
    go("CONT thread", PTRACE_CONT, tid, 0);
    go("CONT", PTRACE_CONT, pid, 0);
    told("thread", tid);
    told("threads", pid);
}

/* Who may. */
static void test_rights(void) {
    pid_t victims[3];
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        victims[i] = fork();
        if (victims[i] == 0) {
            if (i > 0 && (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000)))
                _exit(9);
            prctl(PR_SET_DUMPABLE, i < 2);
            for (;;)
                pause();
        }
    }
    usleep(100000);
    fflush(stdout);
    pid_t user = fork();
    if (user == 0) {
        static const char *const names[] = {"root's", "its own", "its own, not dumpable"};
        if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
            _exit(9);
        for (int i = 0; i < 3; i++) {
            long own;
            struct iovec near = {&own, sizeof own}, far = {(void *)words, sizeof own};
            printf("user 1000, %s: readv %s", names[i], result(process_vm_readv(victims[i], &near, 1, &far, 1, 0)));
            printf(", writev %s", result(process_vm_writev(victims[i], &near, 1, &far, 1, 0)));
            printf(", ATTACH %s", result(trace(PTRACE_ATTACH, victims[i], NULL, NULL)));
            printf(", SEIZE %s\n", result(trace(PTRACE_SEIZE, victims[i], NULL, NULL)));
        }
        printf("itself %s, nobody %s, init %s\n", result(trace(PTRACE_ATTACH, getpid(), NULL, NULL)), result(trace(PTRACE_ATTACH, 32767, NULL, NULL)), result(trace(PTRACE_ATTACH, 1, NULL, NULL)));
        fflush(stdout);
        _exit(0);
    }
    waitpid(user, NULL, 0);
    for (int i = 0; i < 3; i++) {
        kill(victims[i], SIGKILL);
        waitpid(victims[i], NULL, 0);
    }
}

int main(int argc, char **argv) {
    if (argc > 1)
        return 42;
    (void)argv;
    alarm(50);
    test_calls();
    test_memory();
    test_signals();
    test_children();
    test_exec();
    test_steps();
    test_attach();
    test_tracers_end();
    test_threads();
    test_rights();
    return 0;
}
