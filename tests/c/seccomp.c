/* seccomp(2): what may be installed by whom, what becomes of calls that a filter refuses, who inherits filters. */
// cairn-test: time=30 cores=4
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

/* As in linux/filter.h, linux/seccomp.h and linux/audit.h, which not every C library brings along. */
struct sock_filter {
    uint16_t code;
    uint8_t jt, jf;
    uint32_t k;
};
struct sock_fprog {
    unsigned short len;
    struct sock_filter *filter;
};
struct seccomp_data {
    int nr;
    uint32_t arch;
    uint64_t instruction_pointer, args[6];
};
enum { BPF_LD = 0, BPF_ALU = 4, BPF_JMP = 5, BPF_RET = 6, BPF_W = 0, BPF_B = 0x10, BPF_ABS = 0x20, BPF_MEM = 0x60, BPF_K = 0, BPF_JA = 0, BPF_JEQ = 0x10, BPF_DIV = 0x30 };
#define BPF_STMT(code, k) {code, 0, 0, k}
#define BPF_JUMP(code, k, jt, jf) {code, jt, jf, k}
#define AUDIT_ARCH_X86_64 0xc000003e
#define SECCOMP_RET_KILL_PROCESS 0x80000000
enum {
    SECCOMP_MODE_STRICT = 1, SECCOMP_MODE_FILTER, SECCOMP_SET_MODE_STRICT = 0, SECCOMP_SET_MODE_FILTER, SECCOMP_GET_ACTION_AVAIL, SECCOMP_FILTER_FLAG_TSYNC = 1,
    SECCOMP_RET_KILL_THREAD = 0, SECCOMP_RET_TRAP = 0x30000, SECCOMP_RET_ERRNO = 0x50000, SECCOMP_RET_TRACE = 0x7ff00000, SECCOMP_RET_LOG = 0x7ffc0000, SECCOMP_RET_ALLOW = 0x7fff0000
};
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define LENGTH(array) (sizeof(array) / sizeof *(array))

static const char *result(long value) {
    return value >= 0 ? "ok" : strerror(errno);
}

static long seccomp(unsigned operation, unsigned flags, void *argument) {
    return syscall(SYS_seccomp, operation, flags, argument);
}

static long install(struct sock_filter *filter, size_t length, unsigned flags) {
    struct sock_fprog program = {.len = length, .filter = filter};
    return seccomp(SECCOMP_SET_MODE_FILTER, flags, &program);
}

/* This answer for one call, and none for others. */
static long refuse(long call, unsigned answer, unsigned flags) {
    struct sock_filter filter[] = {
        LOAD(arch), IS(AUDIT_ARCH_X86_64, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS), LOAD(nr), IS(call, 0, 1), RETURN(answer), RETURN(SECCOMP_RET_ALLOW),
    };
    return install(filter, LENGTH(filter), flags);
}

static void must(long value, const char *what) {
    if (value >= 0)
        return;
    printf("%s: %s\n", what, strerror(errno));
    fflush(stdout);
    _exit(9);
}

/* What becomes of a child that does this. */
static void child(const char *what, void (*act)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        act();
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("%s: %s %d\n", what, WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void arguments(void) {
    struct sock_filter good[] = {RETURN(SECCOMP_RET_ALLOW)}, open_end[] = {LOAD(nr)}, odd[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), RETURN(0)},
                       beyond[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), RETURN(0)}, packet[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), RETURN(0)},
                       jump[] = {BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0), RETURN(0)}, zero[] = {BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), RETURN(0)},
                       memory[] = {BPF_STMT(BPF_LD | BPF_MEM, 3), RETURN(0)};
    printf("mode %d\n", prctl(PR_GET_SECCOMP));
    if (getuid() == 0)
        must(setuid(1000), "setuid");
    printf("without no_new_privs: %s\n", result(install(good, 1, 0)));
    printf("by prctl: %s\n", result(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &(struct sock_fprog){1, good})));
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    printf("empty: %s\n", result(install(good, 0, 0)));
    printf("4097: %s\n", result(install(good, 4097, 0)));
    printf("no program: %s\n", result(seccomp(SECCOMP_SET_MODE_FILTER, 0, NULL)));
    printf("nowhere: %s\n", result(install((void *)8, 1, 0)));
    printf("open end: %s\n", result(install(open_end, 1, 0)));
    printf("odd: %s\n", result(install(odd, 2, 0)));
    printf("beyond: %s\n", result(install(beyond, 2, 0)));
    printf("bytes: %s\n", result(install(packet, 2, 0)));
    printf("jump: %s\n", result(install(jump, 2, 0)));
    printf("zero: %s\n", result(install(zero, 2, 0)));
    printf("memory: %s\n", result(install(memory, 2, 0)));
    printf("flags: %s\n", result(install(good, 1, 1 << 20)));
    printf("operation: %s\n", result(seccomp(77, 0, NULL)));
    printf("strict with flags: %s, with an argument: %s\n", result(seccomp(SECCOMP_SET_MODE_STRICT, 1, NULL)), result(seccomp(SECCOMP_SET_MODE_STRICT, 0, good)));
    printf("mode of prctl: %s\n", result(prctl(PR_SET_SECCOMP, 3, NULL)));
    unsigned actions[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP, SECCOMP_RET_ERRNO, SECCOMP_RET_TRACE, SECCOMP_RET_LOG, SECCOMP_RET_ALLOW, 0x12340000};
    for (size_t i = 0; i < LENGTH(actions); i++)
        printf("action %x: %s\n", actions[i], result(seccomp(SECCOMP_GET_ACTION_AVAIL, 0, &actions[i])));
    printf("action nowhere: %s\n", result(seccomp(SECCOMP_GET_ACTION_AVAIL, 0, NULL)));
    printf("good: %s\n", result(install(good, 1, 0)));
    printf("mode %d; strict now: %s\n", prctl(PR_GET_SECCOMP), result(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)));
    printf("by prctl: %s\n", result(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &(struct sock_fprog){1, good})));
    char line[128];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (strncmp(line, "Seccomp", 7) == 0)
            fputs(line, stdout);
    fclose(status);
}

static void answers(void) {
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    must(refuse(SYS_getppid, SECCOMP_RET_ERRNO | EXDEV, 0), "errno");
    printf("getppid: %s, getpid: %s\n", result(syscall(SYS_getppid)), result(syscall(SYS_getpid)));
    /* The strictest counts, of two that are alike the newer one. */
    must(refuse(SYS_getppid, SECCOMP_RET_ALLOW, 0), "allow");
    printf("allowed by the newer: %s\n", result(syscall(SYS_getppid)));
    must(refuse(SYS_getppid, SECCOMP_RET_ERRNO | EDOM, 0), "errno");
    printf("errno by the newer: %s\n", result(syscall(SYS_getppid)));
    must(refuse(SYS_getuid, SECCOMP_RET_ERRNO | 0, 0), "0");
    printf("0: %ld\n", syscall(SYS_getuid));
    must(refuse(SYS_getgid, SECCOMP_RET_ERRNO | 0xffff, 0), "65535");
    errno = 0;
    long most = syscall(SYS_getgid);
    printf("65535: %ld, %d\n", most, errno);
    must(refuse(SYS_getegid, SECCOMP_RET_TRACE | 5, 0), "trace");
    printf("trace: %s\n", result(syscall(SYS_getegid)));
    must(refuse(SYS_geteuid, SECCOMP_RET_LOG, 0), "log");
    printf("log: %s\n", result(syscall(SYS_geteuid)));
    /* By an argument, both halves. */
    struct sock_filter by_argument[] = {
        LOAD(nr), IS(SYS_dup, 0, 4), LOAD(args[0]), IS(77, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]) + 4), IS(0, 1, 0), RETURN(SECCOMP_RET_ALLOW), RETURN(SECCOMP_RET_ERRNO | ERANGE),
    };
    by_argument[1].jf = 4;
    by_argument[3].jf = 2;
    must(install(by_argument, LENGTH(by_argument), 0), "by argument");
    printf("dup 77: %s, 78: %s, beyond: %s\n", result(syscall(SYS_dup, 77)), result(syscall(SYS_dup, 78)), result(syscall(SYS_dup, 77L | 1L << 32)));
}

static volatile siginfo_t seen;
static volatile long seen_rax;

static void on_sigsys(int signal, siginfo_t *info, void *context) {
    (void)signal;
    memcpy((void *)&seen, info, sizeof seen);
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    seen_rax = registers[REG_RAX];
    registers[REG_RAX] = 4711;
    if ((void *)registers[REG_RIP] != info->si_call_addr)
        seen_rax = -1;
}

static void trap(void) {
    struct sigaction action = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    must(refuse(SYS_getppid, SECCOMP_RET_TRAP | 321, 0), "trap");
    long answer = syscall(SYS_getppid);
    printf("answer %ld, code %d, errno %d, call %d, arch %x, rax %ld\n", answer, seen.si_code, seen.si_errno, seen.si_syscall, seen.si_arch, seen_rax);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    fflush(stdout);
    /* A signal of a filter is not to be blocked. */
    syscall(SYS_getppid);
    puts("alive");
}

static void kill_process(void) {
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    must(refuse(SYS_getppid, SECCOMP_RET_KILL_PROCESS, 0), "kill");
    signal(SIGSYS, SIG_IGN);
    syscall(SYS_getppid);
    puts("alive");
}

static volatile pid_t dying;

static void *dies(void *unused) {
    dying = syscall(SYS_gettid);
    must(refuse(SYS_getppid, SECCOMP_RET_KILL_THREAD, 0), "kill thread");
    syscall(SYS_getppid);
    puts("alive");
    return unused;
}

static void kill_thread(void) {
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    pthread_t thread;
    pthread_create(&thread, NULL, dies, NULL);
    /* (Not every C library learns of its end.) */
    while (dying == 0 || syscall(SYS_tgkill, getpid(), dying, 0) == 0)
        usleep(1000);
    printf("the other thread: %s\n", result(syscall(SYS_getppid)));
    fflush(stdout);
    dies(NULL);
}

static void strict(void) {
    int pair[2];
    pipe(pair);
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), "strict");
    char byte = 'x';
    if (write(pair[1], &byte, 1) == 1 && read(pair[0], &byte, 1) == 1)
        syscall(SYS_exit, 5);
    syscall(SYS_exit, 6);
}

static void strict_getpid(void) {
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), "strict");
    syscall(SYS_getpid);
    syscall(SYS_exit, 5);
}

static void inherits(void) {
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    must(refuse(SYS_getppid, SECCOMP_RET_ERRNO | EXDEV, 0), "errno");
    must(refuse(SYS_getegid, SECCOMP_RET_ERRNO | EDOM, 0), "errno");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        printf("after fork: %s\n", result(syscall(SYS_getppid)));
        fflush(stdout);
        execl("/proc/self/exe", "seccomp", "again", NULL);
        _exit(9);
    }
    int status;
    waitpid(pid, &status, 0);
    pid = vfork();
    if (pid == 0) {
        execl("/proc/self/exe", "seccomp", "again", NULL);
        _exit(9);
    }
    waitpid(pid, &status, 0);
}

static void *asks(void *argument) {
    pthread_barrier_t *barriers = argument;
    printf("a thread before: %s\n", result(syscall(SYS_getppid)));
    pthread_barrier_wait(&barriers[0]);
    pthread_barrier_wait(&barriers[1]);
    printf("and then: %s, mode %d\n", result(syscall(SYS_getppid)), prctl(PR_GET_SECCOMP));
    return NULL;
}

static void with_thread(unsigned flags) {
    static pthread_barrier_t barriers[2];
    pthread_barrier_init(&barriers[0], NULL, 2);
    pthread_barrier_init(&barriers[1], NULL, 2);
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    pthread_t thread;
    pthread_create(&thread, NULL, asks, barriers);
    pthread_barrier_wait(&barriers[0]);
    must(refuse(SYS_getppid, SECCOMP_RET_ERRNO | EXDEV, flags), "errno");
    pthread_barrier_wait(&barriers[1]);
    pthread_join(thread, NULL);
    /* Threads made by a filtered one are filtered. */
    pthread_create(&thread, NULL, asks, barriers);
    pthread_barrier_wait(&barriers[0]);
    pthread_barrier_wait(&barriers[1]);
    pthread_join(thread, NULL);
}

static void alone(void) {
    with_thread(0);
}

static void together(void) {
    with_thread(SECCOMP_FILTER_FLAG_TSYNC);
}

static pthread_barrier_t waits;

static void *differs(void *unused) {
    must(refuse(SYS_getegid, SECCOMP_RET_ERRNO | EXDEV, 0), "errno");
    pthread_barrier_wait(&waits);
    pthread_barrier_wait(&waits);
    return unused;
}

static void apart(void) {
    pthread_barrier_init(&waits, NULL, 2);
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    pthread_t thread;
    pthread_create(&thread, NULL, differs, NULL);
    pthread_barrier_wait(&waits);
    long other = refuse(SYS_getppid, SECCOMP_RET_ERRNO | EXDEV, SECCOMP_FILTER_FLAG_TSYNC);
    printf("another's filters: %s\n", other > 0 && other != getpid() ? "a thread" : "?");
    printf("so: %s\n", result(syscall(SYS_getppid)));
    pthread_barrier_wait(&waits);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        printf("after exec: getppid %s, getegid %s, mode %d\n", result(syscall(SYS_getppid)), result(syscall(SYS_getegid)), prctl(PR_GET_SECCOMP));
        return 0;
    }
    child("arguments", arguments);
    child("answers", answers);
    child("trap", trap);
    child("kill process", kill_process);
    child("kill thread", kill_thread);
    child("strict", strict);
    child("strict, getpid", strict_getpid);
    child("inherits", inherits);
    child("alone", alone);
    child("together", together);
    child("apart", apart);
    return 0;
}
