/* Small messages between processes and threads: pipes with several at each end, what ends a wait, semaphores in memory that is mapped anew, signals that one thread waits for. cairn-test: cores=4 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, WRITERS = 4, EACH = 500 };
/* Not every C library comes with the kernel's headers. */
enum { FUTEX_WAIT, FUTEX_WAKE };

static void say(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
    fflush(stdout);
}

/* Four processes write records of every small size; each arrives whole and in its writer's order. */
static void several_writers(void) {
    int p[2];
    if (pipe(p) < 0) {
        return;
    }
    for (int w = 0; w < WRITERS; w++) {
        if (fork() == 0) {
            close(p[0]);
            for (int i = 0; i < EACH; i++) {
                unsigned char record[16];
                int size = 3 + (w + i) % 13;
                memset(record, 'a' + w, sizeof record);
                record[0] = size;
                record[1] = i % 256;
                if (write(p[1], record, size) != size) {
                    _exit(1);
                }
            }
            _exit(0);
        }
    }
    close(p[1]);
    int next[WRITERS] = {0}, good = 0, bad = 0;
    unsigned char record[16];
    while (read(p[0], record, 1) == 1) {
        int rest = record[0] - 1, got = 0;
        while (got < rest) {
            ssize_t n = read(p[0], record + 1 + got, rest - got);
            if (n <= 0) {
                break;
            }
            got += n;
        }
        int w = record[2] - 'a';
        int right = got == rest && w >= 0 && w < WRITERS && record[1] == next[w] % 256;
        for (int i = 2; right && i <= rest; i++) {
            right = record[i] == 'a' + w;
        }
        good += right;
        bad += !right;
        if (right) {
            next[w]++;
        }
    }
    int failed = 0, status;
    while (wait(&status) > 0) {
        failed += status != 0;
    }
    printf("records: %d whole, %d not, %d writers failed\n", good, bad, failed);
    close(p[0]);
}

/* Three readers wait; each gets one byte, and the end when the writer goes. */
static void several_readers(void) {
    int p[2], q[2];
    if (pipe(p) < 0 || pipe(q) < 0) {
        return;
    }
    for (int r = 0; r < 3; r++) {
        if (fork() == 0) {
            char c[8];
            close(p[1]);
            int sum = 0;
            for (ssize_t n; (n = read(p[0], c, 1 + r * 3)) > 0;) {
                sum += n;
            }
            (void)!write(q[1], &sum, sizeof sum);
            _exit(0);
        }
    }
    close(p[0]);
    for (int i = 0; i < 300; i++) {
        if (write(p[1], "abc", 1 + i % 3) != 1 + i % 3) {
            puts("short write");
        }
    }
    close(p[1]);
    int total = 0, sum;
    for (int r = 0; r < 3; r++) {
        (void)!read(q[0], &sum, sizeof sum);
        total += sum;
    }
    while (wait(NULL) > 0) {
    }
    printf("readers got %d\n", total);
    close(q[0]);
    close(q[1]);
}

static volatile sig_atomic_t handled;
static void handler(int signal) { handled = signal; }

static void ends_of_waits(void) {
    int p[2], s[2];
    char c = 'x', text[8];
    if (pipe2(p, O_NONBLOCK) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0) {
        return;
    }
    say("read from an empty pipe", read(p[0], &c, 1));
    int filled = 0;
    while (write(p[1], &c, 1) == 1) {
        filled++;
    }
    say("write to a full pipe", write(p[1], &c, 1));
    printf("it held %d\n", filled);
    while (read(p[0], text, 8) > 0) {
    }
    char *volatile nowhere = (char *)8;
    say("write from nowhere", write(p[1], nowhere, 1));
    say("nothing from nowhere", read(p[0], nowhere, 0));
    say("wrong end", write(p[0], &c, 1));
    say("wrong end", read(p[1], &c, 1));
    say("no descriptor", read(99, &c, 1));
    close(p[0]);
    signal(SIGPIPE, handler);
    say("broken pipe", write(p[1], &c, 1));
    printf("signal %d\n", handled);
    close(p[1]);
    say("peer", write(s[0], "abcdefgh", 8));
    say("part of it", read(s[1], text, 3));
    say("the rest", read(s[1], text + 3, 5));
    printf("%.8s\n", text);
    close(s[0]);
    say("after the peer", read(s[1], text, 1));
    close(s[1]);

    /* A handler without SA_RESTART ends the wait, one with it does not. */
    for (int restart = 0; restart < 2; restart++) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = restart ? SA_RESTART : 0};
        sigaction(SIGUSR1, &action, NULL);
        handled = 0;
        int seen[2];
        if (pipe(p) < 0 || pipe2(seen, O_NONBLOCK) < 0) {
            return;
        }
        pid_t parent = getpid(), pid = fork();
        if (pid == 0) {
            /* As long as it takes to interrupt a read. */
            for (int i = 0; restart ? i < 20 : read(seen[0], &c, 1) != 1; i++) {
                usleep(10000);
                kill(parent, SIGUSR1);
            }
            (void)!write(p[1], "y", 1);
            _exit(0);
        }
        ssize_t n;
        int interrupted = 0;
        while ((n = read(p[0], &c, 1)) < 0 && errno == EINTR) {
            interrupted = 1;
            (void)!write(seen[1], "s", 1);
        }
        printf("restart %d: read %zd, interrupted %d, handler %d\n", restart, n, interrupted, handled == SIGUSR1);
        waitpid(pid, NULL, 0);
        for (int i = 0; i < 2; i++) {
            close(p[i]);
            close(seen[i]);
        }
    }
}

static void counters(void) {
    int e = eventfd(0, 0), f = eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE);
    uint64_t v = 3;
    (void)!write(f, &v, 8);
    say("semaphore", read(f, &v, 8) == 8 ? (long)v : -1);
    say("semaphore", read(f, &v, 8) == 8 ? (long)v : -1);
    say("semaphore", read(f, &v, 8) == 8 ? (long)v : -1);
    say("semaphore", read(f, &v, 8));
    say("too short", write(f, &v, 4));
    v = UINT64_MAX;
    say("too large", write(f, &v, 8));
    pid_t pid = fork();
    if (pid == 0) {
        uint64_t sum = 0;
        while (sum < 5050 && read(e, &v, 8) == 8) {
            sum += v;
        }
        _exit(sum == 5050 ? 0 : 1);
    }
    for (v = 1; v <= 100; v++) {
        (void)!write(e, &v, 8);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("sum %s\n", status == 0 ? "right" : "wrong");
    close(e);
    close(f);
}

static long futex(int *word, int operation, int value) { return syscall(SYS_futex, word, operation, value, NULL, NULL, 0); }

/* The same address is first one shared page, then another, then memory of this process alone. */
static void mapped_anew(void) {
    char *a = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = memfd_create("page", 0);
    if (a == MAP_FAILED || fd < 0 || ftruncate(fd, PAGE) < 0) {
        puts("no memory");
        return;
    }
    int *word = (int *)a;
    for (int round = 0; round < 3; round++) {
        char *elsewhere = a;
        if (round == 1) {
            mmap(a, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
            elsewhere = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        } else if (round == 2) {
            munmap(a, PAGE);
            mmap(a, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        }
        *word = 0;
        pid_t pid = fork();
        if (pid == 0) {
            alarm(300);
            int *mine = (int *)elsewhere;
            __atomic_store_n(mine, 1, __ATOMIC_SEQ_CST);
            while (__atomic_load_n(mine, __ATOMIC_SEQ_CST) == 1) {
                futex(mine, FUTEX_WAIT, 1);
            }
            _exit(*mine);
        }
        while (__atomic_load_n(word, __ATOMIC_SEQ_CST) != 1) {
            sched_yield();
        }
        /* Whenever it has come to wait: then it is woken, and waits again. */
        long woken;
        while ((woken = futex(word, FUTEX_WAKE, 1)) == 0) {
            usleep(1000);
        }
        __atomic_store_n(word, 7 + round, __ATOMIC_SEQ_CST);
        futex(word, FUTEX_WAKE, 1);
        int status;
        waitpid(pid, &status, 0);
        printf("round %d: woken %ld, status %d\n", round, woken, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    *word = 3;
    say("another value", futex(word, FUTEX_WAIT, 4));
    struct timespec soon = {.tv_nsec = 10000000};
    say("in time", syscall(SYS_futex, word, FUTEX_WAIT, 3, &soon, NULL, 0));
    munmap(a, PAGE);
    say("unmapped", futex(word, FUTEX_WAIT, 3));
    close(fd);
}

/* A ring of processes that pass a token by semaphores in shared memory. */
static void semaphores(void) {
    sem_t *ring = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int *passes = (int *)((char *)ring + PAGE / 2);
    for (int i = 0; i < 5; i++) {
        sem_init(&ring[i], 1, 0);
    }
    for (int i = 1; i < 5; i++) {
        if (fork() == 0) {
            for (int n = 0; n < 200; n++) {
                sem_wait(&ring[i]);
                ++*passes;
                sem_post(&ring[(i + 1) % 5]);
            }
            _exit(0);
        }
    }
    for (int n = 0; n < 200; n++) {
        sem_post(&ring[1]);
        sem_wait(&ring[0]);
        ++*passes;
    }
    while (wait(NULL) > 0) {
    }
    printf("passes %d\n", *passes);
    munmap(ring, PAGE);
}

static sigset_t waited;
static int taken[2];
static void *signal_thread(void *unused) {
    int got, sum = 0;
    while (sum < 3 && sigwait(&waited, &got) == 0) {
        sum += got == SIGUSR2;
        (void)!write(taken[1], "t", 1);
    }
    return unused ? NULL : (void *)(long)sum;
}

/* All threads block a signal and one waits for it: it gets what is sent to the process. */
static void one_thread_waits(void) {
    pthread_t thread;
    void *result;
    sigemptyset(&waited);
    sigaddset(&waited, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &waited, NULL);
    int to[2];
    char c = 0;
    if (pipe(to) < 0 || pipe(taken) < 0 || pthread_create(&thread, NULL, signal_thread, NULL) != 0) {
        return;
    }
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 3; i++) {
            kill(parent, SIGUSR2);
            (void)!read(taken[0], &c, 1);
        }
        (void)!read(to[0], &c, 1);
        _exit(0);
    }
    alarm(300);
    pthread_join(thread, &result);
    printf("the thread got %ld\n", (long)result);
    (void)!write(to[1], &c, 1);
    waitpid(pid, NULL, 0);
    alarm(0);
}

static volatile sig_atomic_t order[8], count;
static void note(int signal) { order[count++ % 8] = signal; }

/* Signals to oneself have been handled when the call returns; blocked ones wait. */
static void to_oneself(void) {
    sigset_t two;
    for (int n = 0; n < 3; n++) {
        signal((int[]){SIGUSR1, SIGALRM, SIGTERM}[n], note);
    }
    kill(getpid(), SIGUSR1);
    printf("after kill: %d\n", count);
    raise(SIGTERM);
    printf("after raise: %d\n", count);
    kill(0, SIGALRM);
    printf("after kill of the group: %d\n", count);
    sigemptyset(&two);
    sigaddset(&two, SIGTERM);
    sigaddset(&two, SIGUSR1);
    sigprocmask(SIG_BLOCK, &two, NULL);
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR1);
    sigset_t pending;
    sigpending(&pending);
    printf("blocked: %d, pending %d %d\n", count, sigismember(&pending, SIGTERM), sigismember(&pending, SIGUSR1));
    sigprocmask(SIG_UNBLOCK, &two, NULL);
    printf("unblocked: %d, last %d %d\n", count, order[3] == SIGUSR1 || order[3] == SIGTERM, order[3] != order[4]);
    union sigval value = {.sival_int = 77};
    siginfo_t info;
    sigset_t queued;
    sigemptyset(&queued);
    sigaddset(&queued, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &queued, NULL);
    for (int n = 0; n < 3; n++) {
        value.sival_int = 77 + n;
        sigqueue(getpid(), SIGRTMIN, value);
    }
    for (int n = 0; n < 3; n++) {
        sigwaitinfo(&queued, &info);
        printf("queued: %d %d from %d\n", info.si_value.sival_int, info.si_code == SI_QUEUE, info.si_pid == getpid());
    }
    struct timespec soon = {.tv_nsec = 10000000};
    say("no more", sigtimedwait(&queued, &info, &soon));
}

int main(void) {
    setpgid(0, 0);
    several_writers();
    several_readers();
    ends_of_waits();
    counters();
    mapped_anew();
    semaphores();
    one_thread_waits();
    to_oneself();
    return 0;
}
