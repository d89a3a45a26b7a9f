/* SCHED_DEADLINE: which times are taken, who may, what a fork says, what each one gets of the processor, and what is left for others. No times are printed. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
enum { OTHER = 0, FIFO = 1, RR = 2, DEADLINE = 6, RESET = 1, KEEP_POLICY = 8, KEEP_PARAMETERS = 16 };

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static const char *name(long result) {
    static char text[64];
    const char *known[] = {[EPERM] = "EPERM", [ESRCH] = "ESRCH", [EAGAIN] = "EAGAIN", [EBUSY] = "EBUSY", [EINVAL] = "EINVAL"};
    if (result >= 0) {
        sprintf(text, "%ld", result);
    } else if (errno < (int)(sizeof known / sizeof *known) && known[errno]) {
        return known[errno];
    } else {
        sprintf(text, "errno %d", errno);
    }
    return text;
}

static long set_with(int pid, uint64_t runtime, uint64_t deadline, uint64_t period, uint64_t flags) {
    struct attributes a = {sizeof a, DEADLINE, flags, 0, 0, runtime, deadline, period};
    return syscall(SYS_sched_setattr, pid, &a, 0);
}

static long set(int pid, uint64_t runtime, uint64_t period) {
    return set_with(pid, runtime, period, period, 0);
}

static long leave(int pid) {
    struct sched_param none = {0};
    return syscall(SYS_sched_setscheduler, pid, OTHER, &none);
}

static void show(int pid) {
    struct attributes a = {0};
    long result = syscall(SYS_sched_getattr, pid, &a, sizeof a, 0);
    printf("  policy %u flags %lu nice %d priority %u times %lu %lu %lu: %s\n", a.policy, a.flags, a.nice, a.priority, a.runtime, a.deadline, a.period,
           name(result));
}

static uint64_t read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000 * MS + t.tv_nsec;
}

static uint64_t now(void) {
    return read_clock(CLOCK_MONOTONIC);
}

static void rest(uint64_t ns) {
    struct timespec t = {ns / (1000 * MS), ns % (1000 * MS)};
    nanosleep(&t, NULL);
}

static void within(const char *what, uint64_t ns, uint64_t least, uint64_t most) {
    if (least <= ns && ns <= most) {
        printf("%s: as it should be\n", what);
    } else {
        printf("%s: %lu us, not %lu to %lu\n", what, ns / 1000, least / 1000, most / 1000);
    }
}

/* A child that does this, and ends. */
#define CHILD(pid, what)                                                                                                                                       \
    int pid = (fflush(stdout), fork());                                                                                                                        \
    if (pid == 0) {                                                                                                                                            \
        what;                                                                                                                                                  \
        fflush(stdout);                                                                                                                                        \
        _exit(0);                                                                                                                                              \
    }

static void end(int pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Threads with deadlines may run on all cores, and are not to be kept from any. */
static void cores(void) {
    static unsigned long before[16], mask[16];
    long size = syscall(SYS_sched_getaffinity, 0, sizeof before, before);
    set(0, MS, 30 * MS);
    memset(mask, 0, sizeof mask);
    int same = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask) == size && !memcmp(mask, before, sizeof mask);
    printf("the same cores: %s, all of them: %s\n", same ? "yes" : "no", name(syscall(SYS_sched_setaffinity, 0, sizeof mask, mask)));
    memset(mask, 0, sizeof mask);
    mask[0] = 1;
    if (before[0] != 1 && (syscall(SYS_sched_setaffinity, 0, sizeof mask, mask) != -1 || errno != EBUSY)) {
        printf("it may be kept from some\n");
    }
    leave(0);
    if (before[0] != 1 && (syscall(SYS_sched_setaffinity, 0, sizeof mask, mask) || set(0, MS, 30 * MS) != -1 || errno != EPERM)) {
        printf("it may have been kept from some\n");
    }
    syscall(SYS_sched_setaffinity, 0, sizeof before, before);
}

static void arguments(void) {
    static const uint64_t times[][3] = {
        {MS, 30 * MS, 30 * MS}, {MS, 20 * MS, 30 * MS}, {MS, 30 * MS, 0}, {1023, 30 * MS, 30 * MS}, {1024, 30 * MS, 30 * MS}, {0, 0, 0}, {0, 1, 1},
        {MS, 0, 30 * MS}, {6 * MS, 5 * MS, 30 * MS}, {MS, 40 * MS, 30 * MS}, {2000, 99999, 99999}, {2000, 99999, 100000}, {2000, 100000, 0}, {2000, 99999, 0},
        {MS, 4194304000, 0}, {MS, 4194304001, 0}, {MS, 30 * MS, 4194304001}, {1ull << 63, 1ull << 63, 0}, {MS, 1ull << 63, 0}, {MS, 30 * MS, 1ull << 63},
        {MS, 30 * MS, ~0ull}, {~0ull, ~0ull, ~0ull}, {96 * MS, 100 * MS, 0}, {100 * MS, 100 * MS, 100 * MS},
    };
    /* Somebody who waits has them, so that nobody has to wait for the next of these periods. */
    CHILD(pid, pause());
    for (unsigned i = 0; i < sizeof times / sizeof *times; i++) {
        long result = set_with(pid, times[i][0], times[i][1], times[i][2], 0);
        printf("%lu %lu %lu: %s\n", times[i][0], times[i][1], times[i][2], name(result));
        if (result == 0) {
            show(pid);
        }
    }
    end(pid);
    printf("nobody: %s\n", name(set(99999, MS, 30 * MS)));
    printf("a negative one: %s\n", name(set(-1, MS, 30 * MS)));
    printf("an unknown flag: %s\n", name(set_with(0, MS, 30 * MS, 30 * MS, 0x80)));
}

static void policies(void) {
    struct sched_param param = {0};
    printf("by policy alone: %s\n", name(syscall(SYS_sched_setscheduler, 0, DEADLINE, &param)));
    printf("set: %s\n", name(set(0, MS, 30 * MS)));
    printf("policy: %s\n", name(syscall(SYS_sched_getscheduler, 0)));
    printf("priority: %s", name(syscall(SYS_sched_getparam, 0, &param)));
    printf(" %d\n", param.sched_priority);
    printf("priority alone: %s\n", name(syscall(SYS_sched_setparam, 0, &param)));
    struct timespec turn = {1, 1};
    printf("turn: %s", name(syscall(SYS_sched_rr_get_interval, 0, &turn)));
    printf(" %ld %ld\n", turn.tv_sec, turn.tv_nsec);
    struct attributes a = {sizeof a, OTHER, KEEP_POLICY, 5, 0, 0, 0, 0};
    printf("its policy, no times: %s\n", name(syscall(SYS_sched_setattr, 0, &a, 0)));
    a.flags = KEEP_POLICY | KEEP_PARAMETERS | RESET;
    printf("all as it is: %s\n", name(syscall(SYS_sched_setattr, 0, &a, 0)));
    show(0);
    struct attributes b = {sizeof b, OTHER, KEEP_POLICY, 0, 0, 2 * MS, 40 * MS, 50 * MS};
    printf("its policy, other times: %s\n", name(syscall(SYS_sched_setattr, 0, &b, 0)));
    show(0);
    struct attributes c = {sizeof c, FIFO, KEEP_PARAMETERS, 0, 7, 0, 0, 0};
    printf("another policy, its times: %s\n", name(syscall(SYS_sched_setattr, 0, &c, 0)));
    setpriority(PRIO_PROCESS, 0, 7);
    show(0);
    struct sched_param seven = {7};
    printf("FIFO: %s\n", name(syscall(SYS_sched_setscheduler, 0, FIFO, &seven)));
    show(0);
    c.policy = RR;
    c.priority = 50;
    printf("another policy, its priority: %s\n", name(syscall(SYS_sched_setattr, 0, &c, 0)));
    show(0);
    leave(0);
    show(0);
    setpriority(PRIO_PROCESS, 0, 0);
}

static void *tell_policy(void *policy) {
    *(long *)policy = syscall(SYS_sched_getscheduler, 0);
    return NULL;
}

static void children(void) {
    pthread_t thread;
    long policy = -1;
    set(0, MS, 30 * MS);
    printf("fork: %s\n", name(fork()));
    printf("vfork: %s\n", name(syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0)));
    printf("thread: %d\n", pthread_create(&thread, NULL, tell_policy, &policy));
    printf("with the flag: %s\n", name(set_with(0, MS, 30 * MS, 30 * MS, RESET)));
    show(0);
    printf("thread: %d", pthread_create(&thread, NULL, tell_policy, &policy));
    pthread_join(thread, NULL);
    printf(", its policy %ld\n", policy);
    CHILD(pid, {
        show(0);
        if (setuid(1000)) {
            printf("setuid: %s\n", name(-1));
        }
        printf("a user: %s\n", name(set(0, MS, 30 * MS)));
        printf("with wrong times: %s\n", name(set(0, MS, 1)));
        printf("about root's: %s\n", name(set(getppid(), MS, 30 * MS)));
        show(getppid());
        printf("takes root's: %s\n", name(leave(getppid())));
    });
    waitpid(pid, NULL, 0);
    leave(0);
    CHILD(gives, {
        set(0, MS, 30 * MS);
        if (setuid(1000)) {
            printf("setuid: %s\n", name(-1));
        }
        printf("the same again as a user: %s\n", name(set(0, MS, 30 * MS)));
        printf("leaves: %s\n", name(leave(0)));
        printf("and back: %s\n", name(set(0, MS, 30 * MS)));
    });
    waitpid(gives, NULL, 0);
    CHILD(executes, {
        set_with(0, MS, 30 * MS, 30 * MS, RESET);
        execl("/proc/self/exe", "deadlines", "shows", NULL);
        printf("exec: %s\n", name(-1));
    });
    waitpid(executes, NULL, 0);
}

/* 19 twentieths of a processor can be given away, and what is given back can be had again. (Linux has it back when the last period is over, or later: so this
   comes first.) */
static void shares(void) {
    enum { COUNT = 24 };
    int pid[COUNT], inside = 0, refused = 0;
    for (int i = 0; i < COUNT; i++) {
        fflush(stdout);
        pid[i] = fork();
        if (pid[i] == 0) {
            for (;;) {
                pause();
            }
        }
        long result = set(pid[i], 5200000, 100 * MS);
        inside += result == 0;
        refused += result != 0 && errno == EBUSY;
    }
    printf("%d are in, %d refused\n", inside, refused);
    printf("one more: %s\n", name(set(0, 10 * MS, 100 * MS)));
    end(pid[3]);
    end(pid[4]);
    rest(300 * MS);
    printf("after an end: %s\n", name(set(pid[22], 5200000, 100 * MS)));
    printf("and another one: %s\n", name(set(pid[23], 5200000, 100 * MS)));
    printf("and no more: %s\n", name(set(pid[20], 5200000, 100 * MS)));
    printf("less for one: %s\n", name(set(pid[23], 2 * MS, 100 * MS)));
    rest(300 * MS);
    printf("is more for another: %s\n", name(set(pid[22], 8 * MS, 100 * MS)));
    for (int i = 0; i < COUNT; i++) {
        if (i != 3 && i != 4) {
            end(pid[i]);
        }
    }
    rest(300 * MS);
    printf("nearly all: %s\n", name(set(0, 180 * MS, 200 * MS)));
    leave(0);
    rest(600 * MS);
    printf("and again: %s\n", name(set(0, 180 * MS, 200 * MS)));
    leave(0);
    rest(600 * MS);
}

static void spin(uint64_t ns) {
    for (uint64_t begin = now(); now() - begin < ns;) {
    }
}

static void turns(void) {
    set(0, 5 * MS, 50 * MS);
    sched_yield();
    uint64_t begin = now();
    for (int i = 0; i < 6; i++) {
        sched_yield();
    }
    within("six periods", now() - begin, 240 * MS, 380 * MS);
    leave(0);
    rest(100 * MS);

    set(0, 10 * MS, 100 * MS);
    uint64_t had = read_clock(CLOCK_THREAD_CPUTIME_ID);
    spin(1000 * MS);
    within("a greedy one", read_clock(CLOCK_THREAD_CPUTIME_ID) - had, 80 * MS, 150 * MS);
    leave(0);
    rest(200 * MS);

    volatile uint64_t *count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int load = fork();
    if (load == 0) {
        for (;;) {
            ++*count;
        }
    }
    int greedy = fork();
    if (greedy == 0) {
        spin(60000 * MS);
        _exit(0);
    }
    printf("four fifths: %s\n", name(set(greedy, 80 * MS, 100 * MS)));
    uint64_t before = *count;
    rest(1000 * MS);
    printf("an ordinary program beside it %s\n", *count > before + 1000 ? "goes on" : "stands still");
    kill(greedy, SIGSTOP);
    int status;
    waitpid(greedy, &status, WUNTRACED);
    printf("stopped: %d\n", WIFSTOPPED(status));
    kill(greedy, SIGCONT);
    rest(200 * MS);
    show(greedy);
    kill(greedy, SIGKILL);
    waitpid(greedy, &status, 0);
    printf("ended by %d\n", WTERMSIG(status));
    end(load);
    rest(200 * MS);

    /* It goes before every other program. */
    struct sched_param most = {99};
    int first = fork();
    if (first == 0) {
        spin(60000 * MS);
        _exit(0);
    }
    set_with(0, 5 * MS, 50 * MS, 50 * MS, 0);
    syscall(SYS_sched_setscheduler, first, FIFO, &most);
    begin = now();
    for (int i = 0; i < 6; i++) {
        sched_yield();
    }
    within("beside the highest of FIFO", now() - begin, 240 * MS, 400 * MS);
    begin = now();
    rest(20 * MS);
    within("a sleep there", now() - begin, 20 * MS, 45 * MS);
    end(first);
    leave(0);
    rest(100 * MS);
}

static int ends[2], answers[2];

/* Threads of one process, one of which waits for a pipe. */
static void *reader(void *unused) {
    char byte;
    while (read(ends[0], &byte, 1) == 1 && byte) {
        if (write(answers[1], &byte, 1) != 1) {
            break;
        }
    }
    return unused;
}

static pthread_barrier_t all_there;

static void *yielder(void *policy) {
    *(long *)policy = set(0, 9 * MS, 1000 * MS) ? -1 : syscall(SYS_sched_getscheduler, 0);
    sched_yield();
    pthread_barrier_wait(&all_there);
    sched_yield();
    return NULL;
}

static void threads(void) {
    if (pipe(ends) || pipe(answers)) {
        return;
    }
    CHILD(pid, {
        set(0, 2 * MS, 20 * MS);
        reader(NULL);
    });
    char byte = 1;
    int sum = 0;
    for (int i = 0; i < 20; i++) {
        if (write(ends[1], &byte, 1) == 1 && read(answers[0], &byte, 1) == 1) {
            sum++;
        }
    }
    byte = 0;
    if (write(ends[1], &byte, 1) != 1) {
        sum = -1;
    }
    waitpid(pid, NULL, 0);
    printf("answers through a pipe: %d\n", sum);
    enum { COUNT = 100 };
    static pthread_t all[COUNT];
    static long policy[COUNT];
    pthread_barrier_init(&all_there, NULL, COUNT);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    int made = 0, as_set = 0;
    for (; made < COUNT && pthread_create(&all[made], &small, yielder, &policy[made]) == 0; made++) {
    }
    for (int i = 0; i < made; i++) {
        pthread_join(all[i], NULL);
        as_set += policy[i] == DEADLINE;
    }
    printf("%d threads, %d with deadlines\n", made, as_set);
}

int main(int count, char **words) {
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    if (count > 1 && !strcmp(words[1], "shows")) {
        printf("after exec:\n");
        show(0);
        return 0;
    }
    shares();
    arguments();
    cores();
    policies();
    children();
    turns();
    threads();
    printf("done\n");
    return 0;
}
