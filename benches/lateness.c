/* How late a real-time program wakes: one static binary, POSIX only, run on Cairn and on Linux in the same virtual machine by `./cairn bench timer`.
 *
 * A thread of SCHED_FIFO, priority 80, sleeps until times 200 to 400 µs apart, chosen so that they meet a load in all its phases. Its lateness is the time from the one it
 * asked for until it has read the clock again. In QEMU's deterministic mode a nanosecond is one guest instruction. A line gives the median, the 99th percentile and the greatest:
 *     NAME MEDIAN 99% GREATEST
 * or `NAME unsupported REASON`. Loads are ordinary programs of user 1000, each in a process of its own, which are ended afterwards.
 *     lateness SAMPLES [NAME…]     loads whose name begins with one of these; without any: all
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, MIB = 1 << 20, NANO = 1000000000, USER = 1000, SMALL_STACK = 16384 };

static const char *refused; /* why a load cannot be here, if so */
static int told;            /* a load that cannot begin writes why, otherwise "" and NUL */
static const char *directory = "/tmp";

/* ---- loads: each does its work for ever, or says why it cannot ---- */

/* In the load's process: it cannot go on. */
static void fail(const char *what) {
    char text[100];
    snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
    if (write(told, text, strlen(text) + 1) < 0) {
        abort();
    }
    _exit(1);
}

/* In the load's process: all that it needs is there. */
static void ready(void) {
    if (write(told, "", 1) != 1) {
        _exit(1);
    }
}

static void end_one(pid_t child) {
    if (child < 0) {
        fail("fork");
    }
    if (waitpid(child, NULL, 0) != child) {
        fail("waitpid");
    }
}

static void fork_loop(void) {
    for (;;) {
        pid_t child = fork();
        if (child == 0) {
            _exit(0);
        }
        end_one(child);
    }
}

static void load_fork(void) {
    ready();
    fork_loop();
}

static void load_exec(void) {
    ready();
    for (;;) {
        pid_t child = vfork();
        if (child == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(127);
        }
        end_one(child);
    }
}

static void load_write(void) {
    static char block[8192];
    char name[100];
    snprintf(name, sizeof name, "%s/lateness-%d", directory, getpid());
    ready();
    for (;;) {
        int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (file < 0) {
            fail(name);
        }
        unlink(name);
        for (int i = 0; i < 64; i++) {
            if (write(file, block, sizeof block) != sizeof block) {
                fail("write");
            }
        }
        close(file);
    }
}

static char *anonymous(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fail("mmap");
    }
    return memory;
}

static void touch(char *memory, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PAGE) {
        ((volatile char *)memory)[at] = 1;
    }
}

static void load_fault(void) {
    ready();
    for (;;) {
        char *memory = anonymous(64 * PAGE);
        touch(memory, 64 * PAGE);
        munmap(memory, 64 * PAGE);
    }
}

static void load_pipe(void) {
    static char block[65536];
    int there[2], back[2];
    if (pipe(there) < 0 || pipe(back) < 0) {
        fail("pipe");
    }
    pid_t child = fork();
    if (child < 0) {
        fail("fork");
    }
    if (child == 0) {
        close(there[1]);
        ssize_t length;
        while ((length = read(there[0], block, sizeof block)) > 0) {
            if (write(back[1], block, 1) != 1) {
                break;
            }
        }
        _exit(0);
    }
    ready();
    for (size_t length = 1;; length = length < sizeof block ? length * 4 : 1) {
        char byte;
        if (write(there[1], block, length) != (ssize_t)length || read(back[0], &byte, 1) != 1) {
            fail("pipe");
        }
        // The rest of what was answered for a part.
        fcntl(back[0], F_SETFL, O_NONBLOCK);
        while (read(back[0], block, sizeof block) > 0) {
        }
        fcntl(back[0], F_SETFL, 0);
    }
}

/* More than half of the machine's memory in use, in pages that come and go 16 MiB at a time, beside a file as large. */
static void load_memory(void) {
    enum { PARTS = 6, PART = 16 * MIB };
    char *parts[PARTS] = {0};
    char name[100];
    static char block[65536];
    snprintf(name, sizeof name, "%s/lateness-%d", directory, getpid());
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0) {
        fail(name);
    }
    unlink(name);
    for (int i = 0; i < 32 * MIB / (int)sizeof block; i++) {
        if (write(file, block, sizeof block) != sizeof block) {
            fail("write");
        }
    }
    ready();
    for (unsigned i = 0;; i = (i + 1) % PARTS) {
        if (parts[i]) {
            munmap(parts[i], PART);
        }
        parts[i] = anonymous(PART);
        touch(parts[i], PART);
        if (i == 0 && (ftruncate(file, 16 * MIB) < 0 || ftruncate(file, 32 * MIB) < 0)) {
            fail("ftruncate");
        }
    }
}

/* Forks of a process that has 64 MiB. */
static void load_fork_large(void) {
    touch(anonymous(64 * MIB), 64 * MIB);
    ready();
    fork_loop();
}

/* Forks of a process with 10,000 mappings of a page. */
static void load_fork_regions(void) {
    for (int i = 0; i < 10000; i++) {
        char *two = mmap(NULL, 2 * PAGE, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (two == MAP_FAILED) {
            fail("mmap");
        }
        munmap(two + PAGE, PAGE);
    }
    ready();
    fork_loop();
}

/* One thread adds to an event counter as often as it can, another one waits for it by an epoll set. */
static int counter;
static void *add_up(void *unused) {
    uint64_t one = 1;
    for (;;) {
        if (write(counter, &one, sizeof one) < 0) {
            return unused;
        }
    }
}
static void load_pulses(void) {
    pthread_t thread;
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(0);
    counter = eventfd(0, 0);
    if (set < 0 || counter < 0 || epoll_ctl(set, EPOLL_CTL_ADD, counter, &event) < 0) {
        fail("epoll");
    }
    if ((errno = pthread_create(&thread, NULL, add_up, NULL)) != 0) {
        fail("pthread_create");
    }
    ready();
    for (;;) {
        uint64_t value;
        if (epoll_wait(set, &event, 1, -1) != 1 || read(counter, &value, sizeof value) < 0) {
            fail("epoll_wait");
        }
    }
}

/* Two processes that send each other signals, queued and not. */
static void load_signals(void) {
    sigset_t all;
    sigemptyset(&all);
    sigaddset(&all, SIGUSR1);
    sigaddset(&all, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &all, NULL);
    pid_t other = getpid(), child = fork();
    if (child < 0) {
        fail("fork");
    }
    other = child ? child : other;
    if (child) {
        ready();
        kill(other, SIGUSR1);
    }
    for (;;) {
        siginfo_t info;
        union sigval value = {.sival_int = 1};
        if (sigwaitinfo(&all, &info) < 0) {
            fail("sigwaitinfo");
        }
        if (info.si_signo == SIGUSR1 ? sigqueue(other, SIGRTMIN, value) : kill(other, SIGUSR1)) {
            fail("kill");
        }
    }
}

/* 64 POSIX timers of a nanosecond, for whose signals the process waits. */
static void load_timers(void) {
    struct itimerspec often = {{0, 1}, {0, 1}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 64; i++) {
        timer_t timer;
        if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 || timer_settime(timer, 0, &often, NULL) < 0) {
            fail("timer");
        }
    }
    ready();
    for (;;) {
        siginfo_t info;
        if (sigwaitinfo(&set, &info) < 0) {
            fail("sigwaitinfo");
        }
    }
}

static void start(void *(*run)(void *), void *argument) {
    static pthread_attr_t small;
    static int made;
    pthread_t thread;
    if (!made) {
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, SMALL_STACK);
        made = 1;
    }
    if ((errno = pthread_create(&thread, &small, run, argument)) != 0) {
        fail("pthread_create");
    }
}

/* 1,000 threads that sleep until the same time, 20 ms later each time. */
enum { SLEEPERS = 1000 };
static struct timespec sleep_origin;
static void *sleep_in_step(void *unused) {
    struct timespec next = sleep_origin;
    for (;;) {
        next.tv_nsec += 20000000;
        if (next.tv_nsec >= NANO) {
            next.tv_nsec -= NANO;
            next.tv_sec++;
        }
        if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) != 0) {
            return unused;
        }
    }
}
static void load_sleepers(void) {
    clock_gettime(CLOCK_MONOTONIC, &sleep_origin);
    sleep_origin.tv_sec++;
    for (int i = 0; i < SLEEPERS; i++) {
        start(sleep_in_step, NULL);
    }
    ready();
    for (;;) {
        pause();
    }
}

/* A thread that ends with 1,000 mutexes for each of which another one waits: again and again. */
enum { MUTEXES = 1000 };
static pthread_mutex_t mutexes[MUTEXES];
static pthread_barrier_t taken;
static void *wait_for_one(void *which) {
    pthread_mutex_t *mutex = which;
    for (;;) {
        int error = pthread_mutex_lock(mutex);
        if (error == EOWNERDEAD) {
            pthread_mutex_consistent(mutex);
        } else if (error) {
            return NULL;
        }
        pthread_mutex_unlock(mutex);
        // Until the next one has all of them.
        pthread_barrier_wait(&taken);
        pthread_barrier_wait(&taken);
    }
}
static void *take_all(void *unused) {
    for (int i = 0; i < MUTEXES; i++) {
        if (pthread_mutex_lock(&mutexes[i]) == EOWNERDEAD) {
            pthread_mutex_consistent(&mutexes[i]);
        }
    }
    pthread_barrier_wait(&taken);
    // They come to their locks.
    struct timespec rest = {0, 5000000};
    nanosleep(&rest, NULL);
    return unused;
}
static void load_mutexes(void) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    pthread_barrier_init(&taken, NULL, MUTEXES + 1);
    for (int i = 0; i < MUTEXES; i++) {
        pthread_mutex_init(&mutexes[i], &kind);
        start(wait_for_one, &mutexes[i]);
    }
    ready();
    for (;;) {
        pthread_t owner;
        // All of them have had it.
        pthread_barrier_wait(&taken);
        if ((errno = pthread_create(&owner, NULL, take_all, NULL)) != 0 || (errno = pthread_join(owner, NULL)) != 0) {
            fail("pthread_create");
        }
    }
}

/* A process with 300 threads that is killed, again and again. */
static void *stay(void *unused) {
    pause();
    return unused;
}
static void load_killed(void) {
    ready();
    for (;;) {
        int gate[2];
        char byte;
        if (pipe(gate) < 0) {
            fail("pipe");
        }
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 300; i++) {
                start(stay, NULL);
            }
            touch(anonymous(4 * MIB), 4 * MIB);
            if (write(gate[1], "x", 1) != 1) {
                _exit(1);
            }
            pause();
        }
        close(gate[1]);
        if (child < 0 || read(gate[0], &byte, 1) != 1) {
            fail("child");
        }
        close(gate[0]);
        kill(child, SIGKILL);
        end_one(child);
    }
}

/* Long files that are mapped, cut and left, as memory and by name. */
static void load_mapped(void) {
    enum { LONG = 16 * MIB };
    ready();
    for (;;) {
        int file = memfd_create("mapped", 0);
        if (file < 0 || ftruncate(file, LONG) < 0) {
            fail("memfd");
        }
        char *memory = mmap(NULL, LONG, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (memory == MAP_FAILED) {
            fail("mmap");
        }
        touch(memory, LONG);
        if (ftruncate(file, LONG / 2) < 0) {
            fail("ftruncate");
        }
        munmap(memory, LONG);
        close(file);
    }
}

struct load {
    const char *name;
    void (*run)(void);
};

static const struct load loads[] = {
    {"fork", load_fork},
    {"exec", load_exec},
    {"write", load_write},
    {"fault", load_fault},
    {"pipe", load_pipe},
    {"memory", load_memory},
    {"fork-large", load_fork_large},
    {"fork-regions", load_fork_regions},
    {"pulses", load_pulses},
    {"signals", load_signals},
    {"timers", load_timers},
    {"sleepers", load_sleepers},
    {"mutexes", load_mutexes},
    {"killed", load_killed},
    {"mapped", load_mapped},
};
enum { LOADS = sizeof loads / sizeof *loads };

/* ---- what is measured ---- */

/* A load in a process group of its own, as soon as it says that it is ready. 0: it is not. */
static pid_t begin(const struct load *load) {
    static char why[200];
    int ends[2];
    if (pipe(ends) < 0) {
        refused = "pipe";
        return 0;
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        told = ends[1];
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        if (setgid(USER) < 0 || setuid(USER) < 0) {
            fail("setuid");
        }
        load->run();
        _exit(1);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t more = 1;
    while (child > 0 && length < sizeof why - 1 && (more = read(ends[0], why + length, 1)) == 1 && why[length]) {
        length++;
    }
    close(ends[0]);
    why[length] = 0;
    if (child < 0 || more != 1 || length > 0) {
        refused = length ? why : "the load ended";
        return 0;
    }
    setpgid(child, child);
    return child;
}

static void end(pid_t group) {
    if (group > 0) {
        kill(-group, SIGKILL);
        waitpid(group, NULL, 0);
    }
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* 200 to 400 µs, the same ones each time. */
static long interval(void) {
    static uint32_t state = 7;
    state = state * 1664525 + 1013904223;
    return 200000 + (state >> 8) % 200000;
}

static void sample(uint64_t *late, int samples) {
    struct sched_param high = {.sched_priority = 80}, ordinary = {0};
    struct timespec next, now;
    if (sched_setscheduler(0, SCHED_FIFO, &high) < 0) {
        refused = "sched_setscheduler";
        return;
    }
    // After the loads' forks its own pages are copied when they are written, mlockall or not: that is done before.
    interval();
    memset(late, 1, samples * sizeof *late);
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (int i = 0; i < samples; i++) {
        next.tv_nsec += interval();
        if (next.tv_nsec >= NANO) {
            next.tv_nsec -= NANO;
            next.tv_sec++;
        }
        if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) != 0) {
            refused = "clock_nanosleep";
            break;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        late[i] = (uint64_t)(now.tv_sec - next.tv_sec) * NANO + (uint64_t)now.tv_nsec - (uint64_t)next.tv_nsec;
        // A lateness of more than an interval is one, not the lateness of all that come after it as well.
        if (late[i] >= 200000) {
            next = now;
        }
    }
    sched_setscheduler(0, SCHED_OTHER, &ordinary);
}

/* Beside the loads from `first`, so many. */
static void measure(const char *name, const struct load *first, int count, uint64_t *late, int samples) {
    pid_t groups[LOADS] = {0};
    refused = NULL;
    for (int i = 0; i < count && !refused; i++) {
        groups[i] = begin(&first[i]);
    }
    if (!refused) {
        sample(late, samples);
    }
    for (int i = 0; i < count; i++) {
        end(groups[i]);
    }
    if (refused) {
        printf("timer-%s unsupported %s\n", name, refused);
    } else {
        qsort(late, samples, sizeof *late, by_value);
        printf("timer-%s %llu %llu %llu\n", name, (unsigned long long)late[samples / 2], (unsigned long long)late[samples * 99 / 100],
               (unsigned long long)late[samples - 1]);
    }
    fflush(stdout);
}

static int wanted(const char *load, char **names) {
    char full[64];
    snprintf(full, sizeof full, "timer-%s", load);
    int is = !*names;
    for (; *names; names++) {
        is |= strncmp(full, *names, strlen(*names)) == 0;
    }
    return is;
}

int main(int argc, char **argv) {
    int samples = argc > 1 ? atoi(argv[1]) : 0;
    if (samples < 1 || samples > 1000000) {
        fprintf(stderr, "usage: lateness SAMPLES [NAME...]\n");
        return 2;
    }
    uint64_t *late = calloc(samples, sizeof *late);
    if (!late || mlockall(MCL_CURRENT | MCL_FUTURE) < 0) {
        perror("lateness");
        return 1;
    }
    chmod(directory, 01777);
    if (wanted("idle", argv + 2)) {
        measure("idle", loads, 0, late, samples);
    }
    for (int i = 0; i < LOADS; i++) {
        if (wanted(loads[i].name, argv + 2)) {
            measure(loads[i].name, &loads[i], 1, late, samples);
        }
    }
    // Fork, exec, files, pages and pipes.
    if (wanted("all", argv + 2)) {
        measure("all", loads, 5, late, samples);
    }
    return 0;
}
