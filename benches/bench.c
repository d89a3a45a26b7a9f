/* The benchmark program: one static binary, POSIX only, run on Cairn and on Linux in the same virtual machine.
 *
 * Time is the processor's time-stamp counter. In QEMU's deterministic mode (`-icount shift=0`) one tick is one guest instruction.
 * Each operation runs in batches after a warm-up; a line gives the median, least and greatest batch, in ticks per operation:
 *     NAME MEDIAN MIN MAX
 * On Cairn a second line tells what one operation had the nucleus do, in hundredths: entries, switches of address space, invalidations, bytes copied.
 *     NAME work ENTRIES SWITCHES INVALIDATIONS BYTES
 * or `NAME unsupported REASON` if the system refuses what the operation needs. With arguments only operations whose name begins with one of them run;
 * `--disk FOLDER` before them: those of a file system on a disk, in this folder. Each operation has a process of its own (`--row NAME FOLDER`):
 * what one leaves in a process's memory, as stacks of threads and tables of files, makes the forks of the next one dearer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <pthread.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 9, PAGE = 4096, BLOCK = 8192, FILE_BLOCKS = 64 };

static const char *name;    /* the running operation */
static const char *refused; /* why it cannot run here, if it cannot */
static const char *self;    /* path of this program */
static const char *directory = "/tmp";

static inline uint64_t ticks(void) {
    return __builtin_ia32_rdtsc();
}

/* Record that the system refuses what the operation needs; every check below ends the operation. */
static int refuse(const char *what) {
    static char text[128];
    snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
    refused = text;
    return -1;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void report(uint64_t *samples, int count) {
    if (refused) {
        printf("%s unsupported %s\n", name, refused);
    } else {
        qsort(samples, count, sizeof *samples, by_value);
        printf("%s %llu %llu %llu\n", name, (unsigned long long)samples[count / 2], (unsigned long long)samples[0],
               (unsigned long long)samples[count - 1]);
    }
    fflush(stdout);
}

enum { COUNTS = 4 };

/* What the nucleus counted so far; −1 on a system that has no such file. */
static int counts(long long *into) {
    static const char *const names[COUNTS] = {"entries ", "space_switches ", "invalidations ", "bytes_copied "};
    char text[512];
    int file = open("/proc/nucleus", O_RDONLY);
    if (file < 0) {
        return -1;
    }
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length < 0 ? 0 : length] = 0;
    for (int i = 0; i < COUNTS; i++) {
        const char *at = strstr(text, names[i]);
        if (!at) {
            return -1;
        }
        into[i] = atoll(at + strlen(names[i]));
    }
    return 0;
}

/* One batch more, for what the nucleus does meanwhile. Reading the counters costs something itself: a second reading tells what. */
static void report_work(int times, int (*prepare)(void), int (*operation)(void)) {
    long long start[COUNTS], end[COUNTS], again[COUNTS];
    if (refused || (prepare && prepare() < 0) || counts(start) < 0) {
        return;
    }
    for (int i = 0; i < times; i++) {
        if (operation() < 0) {
            return;
        }
    }
    if (counts(end) < 0 || counts(again) < 0) {
        return;
    }
    printf("%s work", name);
    for (int i = 0; i < COUNTS; i++) {
        long long work = (end[i] - start[i]) - (again[i] - end[i]);
        printf(" %lld", work < 0 ? 0 : (work * 100 + times / 2) / times);
    }
    printf("\n");
    fflush(stdout);
}

/* Run `operation` in batches of `times`; it returns 0, or −1 after `refuse`. */
static void measure(int times, int (*operation)(void)) {
    uint64_t samples[BATCHES];
    for (int batch = -2; batch < BATCHES && !refused; batch++) {
        uint64_t start = ticks();
        for (int i = 0; i < times && !refused; i++) {
            if (operation() < 0 && !refused) {
                refuse("operation");
            }
        }
        if (batch >= 0) {
            samples[batch] = (ticks() - start) / times;
        }
    }
    report(samples, BATCHES);
    report_work(times, NULL, operation);
}

/* As `measure`, with work before each batch that does not count. */
static void measure_prepared(int times, int (*prepare)(void), int (*operation)(void)) {
    uint64_t samples[BATCHES];
    for (int batch = -2; batch < BATCHES && !refused; batch++) {
        if (prepare() < 0) {
            if (!refused) {
                refuse("preparation");
            }
            break;
        }
        uint64_t start = ticks();
        for (int i = 0; i < times && !refused; i++) {
            if (operation() < 0 && !refused) {
                refuse("operation");
            }
        }
        if (batch >= 0) {
            samples[batch] = (ticks() - start) / times;
        }
    }
    report(samples, BATCHES);
    report_work(times, prepare, operation);
}

/* ---- small calls ---- */

static int do_getppid(void) { return syscall(SYS_getppid) < 0 ? -1 : 0; }

static int do_clock(void) {
    struct timespec t;
    return clock_gettime(CLOCK_MONOTONIC, &t);
}

static int do_yield(void) { return sched_yield(); }

static int zero_fd, null_fd;
static int do_read_zero(void) {
    char c;
    return read(zero_fd, &c, 1) == 1 ? 0 : refuse("read");
}
static int do_write_null(void) { return write(null_fd, "x", 1) == 1 ? 0 : refuse("write"); }

static int do_brk(void) { return sbrk(PAGE) == (void *)-1 ? refuse("sbrk") : 0; }
static int do_brk_touch(void) {
    char *p = sbrk(PAGE);
    if (p == (void *)-1) {
        return refuse("sbrk");
    }
    *(volatile char *)p = 1;
    return 0;
}

static void small_getppid(void) { measure(20000, do_getppid); }
static void small_clock(void) { measure(20000, do_clock); }
static void small_yield(void) { measure(5000, do_yield); }

static void small_yield_8(void) {
    pid_t child[7];
    for (int i = 0; i < 7; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            for (;;) {
                sched_yield();
            }
        }
    }
    /* Each pass goes once round all eight: the figure is per yield of one process. */
    uint64_t samples[BATCHES];
    for (int batch = -2; batch < BATCHES; batch++) {
        uint64_t start = ticks();
        for (int i = 0; i < 500; i++) {
            sched_yield();
        }
        if (batch >= 0) {
            samples[batch] = (ticks() - start) / (500 * 8);
        }
    }
    for (int i = 0; i < 7; i++) {
        kill(child[i], SIGKILL);
        waitpid(child[i], NULL, 0);
    }
    report(samples, BATCHES);
}

static void small_read_zero(void) {
    zero_fd = open("/dev/zero", O_RDONLY);
    measure(5000, do_read_zero);
    close(zero_fd);
}
static void small_write_null(void) {
    null_fd = open("/dev/null", O_WRONLY);
    measure(5000, do_write_null);
    close(null_fd);
}
static void small_brk(void) {
    void *start = sbrk(0);
    measure(200, do_brk);
    brk(start);
}
static void small_brk_touch(void) {
    void *start = sbrk(0);
    measure(100, do_brk_touch);
    brk(start);
}

/* ---- messages between two processes ---- */

static int to_child, from_child;
static pid_t partner;

static int ping(void) {
    char c = 'x';
    if (write(to_child, &c, 1) != 1 || read(from_child, &c, 1) != 1) {
        return refuse("round trip");
    }
    return 0;
}

/* A child that sends every byte back, over two pipes or a pair of sockets. */
static int echo_child(int in, int out, int other_in, int other_out) {
    partner = fork();
    if (partner < 0) {
        return refuse("fork");
    }
    if (partner == 0) {
        char c;
        close(other_in);
        close(other_out);
        while (read(in, &c, 1) == 1) {
            if (write(out, &c, 1) != 1) {
                break;
            }
        }
        _exit(0);
    }
    return 0;
}

static void message_pipe(void) {
    int a[2], b[2];
    if (pipe(a) < 0 || pipe(b) < 0) {
        refuse("pipe");
    } else if (echo_child(a[0], b[1], a[1], b[0]) == 0) {
        close(a[0]);
        close(b[1]);
        to_child = a[1];
        from_child = b[0];
    }
    measure(1000, ping);
    close(a[1]);
    close(b[0]);
    waitpid(partner, NULL, 0);
}

static void message_socketpair(void) {
    int s[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0) {
        refuse("socketpair");
        measure(1, ping);
        return;
    }
    if (echo_child(s[1], s[1], s[0], s[0]) == 0) {
        close(s[1]);
        to_child = from_child = s[0];
    }
    measure(1000, ping);
    close(s[0]);
    waitpid(partner, NULL, 0);
}

/* 64 bytes there and back over a connection on the loopback interface, or in datagrams. */
static int ping_64(void) {
    char bytes[64] = {0};
    if (write(to_child, bytes, sizeof bytes) != sizeof bytes || read(from_child, bytes, sizeof bytes) != sizeof bytes) {
        return refuse("round trip");
    }
    return 0;
}

static void message_internet(int kind) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, own = name;
    socklen_t length = sizeof name;
    int there = socket(AF_INET, kind, 0), here = socket(AF_INET, kind, 0);
    int bound = bind(there, (struct sockaddr *)&name, length) == 0 && getsockname(there, (struct sockaddr *)&name, &length) == 0;
    if (!bound || (kind == SOCK_STREAM && listen(there, 1) != 0) || connect(here, (struct sockaddr *)&name, length) != 0) {
        refuse("loopback");
        measure(1, ping_64);
        return;
    }
    if (kind == SOCK_STREAM) {
        int listener = there;
        there = accept(listener, NULL, NULL);
        close(listener);
    } else {
        getsockname(here, (struct sockaddr *)&own, &length);
        connect(there, (struct sockaddr *)&own, length);
    }
    partner = fork();
    if (partner < 0) {
        refuse("fork");
    }
    if (partner == 0) {
        char bytes[64];
        close(here);
        while (read(there, bytes, sizeof bytes) == sizeof bytes && write(there, bytes, sizeof bytes) == sizeof bytes) {
        }
        _exit(0);
    }
    close(there);
    to_child = from_child = here;
    measure(1000, ping_64);
    kill(partner, SIGKILL);
    waitpid(partner, NULL, 0);
    close(here);
}

static void message_tcp(void) { message_internet(SOCK_STREAM); }
static void message_udp(void) { message_internet(SOCK_DGRAM); }

static int event_to, event_from;
static int ping_event(void) {
    uint64_t one = 1;
    if (write(event_to, &one, 8) != 8 || read(event_from, &one, 8) != 8) {
        return refuse("round trip");
    }
    return 0;
}

static void message_eventfd(void) {
    event_to = eventfd(0, 0);
    event_from = eventfd(0, 0);
    if (event_to < 0 || event_from < 0) {
        refuse("eventfd");
        measure(1, ping_event);
        return;
    }
    partner = fork();
    if (partner == 0) {
        uint64_t value;
        while (read(event_to, &value, 8) == 8 && write(event_from, &value, 8) == 8) {
        }
        _exit(0);
    }
    measure(1000, ping_event);
    kill(partner, SIGKILL);
    waitpid(partner, NULL, 0);
    close(event_to);
    close(event_from);
}

static int watched_set, watched_file, turn_set, *idle_files, idle_count;
static struct pollfd *polled;

/* So many idle descriptors, and one that is ready. */
static int watch_many(int count) {
    struct rlimit most = {12000, 12000};
    struct epoll_event event = {.events = EPOLLIN};
    setrlimit(RLIMIT_NOFILE, &most);
    watched_set = epoll_create1(0);
    idle_files = malloc(count * sizeof *idle_files);
    polled = malloc(count * sizeof *polled);
    for (idle_count = 0; idle_count < count; idle_count++) {
        int fd = eventfd(idle_count == count / 2, 0);
        idle_files[idle_count] = fd;
        polled[idle_count] = (struct pollfd){fd, POLLIN, 0};
        if (fd < 0 || epoll_ctl(watched_set, EPOLL_CTL_ADD, fd, &event) < 0) {
            return refuse("watching");
        }
    }
    watched_file = eventfd(1, 0);
    return 0;
}

static void watch_no_more(void) {
    for (int i = 0; i < idle_count; i++) {
        close(idle_files[i]);
    }
    close(watched_file);
    close(watched_set);
    free(idle_files);
    free(polled);
}

static int wait_once(void) {
    struct epoll_event events[8];
    return epoll_wait(watched_set, events, 8, -1) == 1 ? 0 : refuse("epoll_wait");
}

static int add_and_remove(void) {
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(watched_set, EPOLL_CTL_ADD, watched_file, &event) < 0 || epoll_ctl(watched_set, EPOLL_CTL_DEL, watched_file, NULL) < 0) {
        return refuse("epoll_ctl");
    }
    return 0;
}

/* Of nine files each in its turn: none of them was in the set a short time ago. */
static int add_and_remove_the_next(void) {
    static int at;
    struct epoll_event event = {.events = EPOLLIN};
    int fd = idle_files[at];
    at = (at + 1) % idle_count;
    if (epoll_ctl(turn_set, EPOLL_CTL_ADD, fd, &event) < 0 || epoll_ctl(turn_set, EPOLL_CTL_DEL, fd, NULL) < 0) {
        return refuse("epoll_ctl");
    }
    return 0;
}

static int poll_once(void) { return poll(polled, idle_count, -1) == 1 ? 0 : refuse("poll"); }

static void ready_measure(int count, int (*operation)(void)) {
    watch_many(count);
    measure(1000, operation);
    watch_no_more();
}

static void ready_wait_10(void) { ready_measure(10, wait_once); }
static void ready_wait_100(void) { ready_measure(100, wait_once); }
static void ready_wait_10000(void) { ready_measure(10000, wait_once); }
static void ready_change(void) { ready_measure(100, add_and_remove); }
static void ready_change_new(void) {
    turn_set = epoll_create1(0);
    ready_measure(9, add_and_remove_the_next);
    close(turn_set);
}
static void ready_poll_100(void) { ready_measure(100, poll_once); }

static int message_queue;
struct note {
    long kind;
    char text[8];
};
static int ping_sysv(void) {
    struct note note = {1, "x"};
    if (msgsnd(message_queue, &note, 8, 0) < 0 || msgrcv(message_queue, &note, 8, 2, 0) < 0) {
        return refuse("round trip");
    }
    return 0;
}
static void message_sysv(void) {
    message_queue = msgget(IPC_PRIVATE, 0600);
    if (message_queue < 0) {
        refuse("msgget");
        measure(1, ping_sysv);
        return;
    }
    partner = fork();
    if (partner == 0) {
        struct note note;
        while (msgrcv(message_queue, &note, 8, 1, 0) >= 0) {
            note.kind = 2;
            if (msgsnd(message_queue, &note, 8, 0) < 0) {
                break;
            }
        }
        _exit(0);
    }
    measure(1000, ping_sysv);
    msgctl(message_queue, IPC_RMID, NULL);
    waitpid(partner, NULL, 0);
}

static mqd_t queue_to, queue_from;
static int ping_posix(void) {
    char text[8] = "x";
    if (mq_send(queue_to, text, 8, 0) < 0 || mq_receive(queue_from, text, 8, NULL) < 0) {
        return refuse("round trip");
    }
    return 0;
}
static void message_posix(void) {
    struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = 8};
    queue_to = mq_open("/bench-to", O_CREAT | O_RDWR, 0600, &attr);
    queue_from = mq_open("/bench-from", O_CREAT | O_RDWR, 0600, &attr);
    if (queue_to == (mqd_t)-1 || queue_from == (mqd_t)-1) {
        refuse("mq_open");
        measure(1, ping_posix);
        return;
    }
    partner = fork();
    if (partner == 0) {
        char text[8];
        while (mq_receive(queue_to, text, 8, NULL) >= 0 && mq_send(queue_from, text, 8, 0) == 0) {
        }
        _exit(0);
    }
    measure(1000, ping_posix);
    kill(partner, SIGKILL);
    waitpid(partner, NULL, 0);
    mq_unlink("/bench-to");
    mq_unlink("/bench-from");
}

/* ---- futex and semaphores between processes and threads ---- */

static int *shared_words;
static long futex(int *word, int operation, int value) { return syscall(SYS_futex, word, operation, value, NULL, NULL, 0); }

static void give_turn(int *word, int turn) {
    __atomic_store_n(word, turn, __ATOMIC_SEQ_CST);
    futex(word, FUTEX_WAKE_PRIVATE, 1);
}
static void wait_turn(int *word, int turn) {
    int seen;
    while ((seen = __atomic_load_n(word, __ATOMIC_SEQ_CST)) != turn) {
        if (futex(word, FUTEX_WAIT_PRIVATE, seen) < 0 && errno != EAGAIN && errno != EINTR) {
            refuse("futex");
            return;
        }
    }
}

static int futex_word;
static void *futex_partner(void *unused) {
    for (;;) {
        wait_turn(&futex_word, 1);
        if (shared_words[0]) {
            return unused;
        }
        give_turn(&futex_word, 0);
    }
}
static int ping_futex(void) {
    give_turn(&futex_word, 1);
    wait_turn(&futex_word, 0);
    return refused ? -1 : 0;
}
static void sync_futex(void) {
    pthread_t thread;
    shared_words[0] = 0;
    futex_word = 0;
    if ((errno = pthread_create(&thread, NULL, futex_partner, NULL)) != 0) {
        refuse("pthread_create");
        measure(1, ping_futex);
        return;
    }
    measure(1000, ping_futex);
    shared_words[0] = 1;
    give_turn(&futex_word, 1);
    pthread_join(thread, NULL);
}

static sem_t *ring;
static int ring_pass(void) {
    if (sem_post(&ring[1]) < 0 || sem_wait(&ring[0]) < 0) {
        return refuse("semaphore");
    }
    return 0;
}
static void sync_ring_8(void) {
    pid_t child[7];
    ring = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ring == MAP_FAILED) {
        refuse("mmap");
        measure(1, ring_pass);
        return;
    }
    for (int i = 0; i < 8; i++) {
        if (sem_init(&ring[i], 1, 0) < 0) {
            refuse("sem_init");
        }
    }
    for (int i = 1; i < 8; i++) {
        child[i - 1] = fork();
        if (child[i - 1] == 0) {
            for (;;) {
                if (sem_wait(&ring[i]) < 0 && errno != EINTR) {
                    _exit(1);
                }
                sem_post(&ring[(i + 1) % 8]);
            }
        }
    }
    /* Per hop: an eighth of a round. */
    uint64_t samples[BATCHES];
    for (int batch = -2; batch < BATCHES && !refused; batch++) {
        uint64_t start = ticks();
        for (int i = 0; i < 200 && ring_pass() == 0; i++) {
        }
        if (batch >= 0) {
            samples[batch] = (ticks() - start) / (200 * 8);
        }
    }
    for (int i = 0; i < 7; i++) {
        kill(child[i], SIGKILL);
        waitpid(child[i], NULL, 0);
    }
    munmap(ring, PAGE);
    report(samples, BATCHES);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int turn, stop;

static void *mutex_partner(void *unused) {
    while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&mutex);
        sched_yield();
        pthread_mutex_unlock(&mutex);
        sched_yield();
    }
    return unused;
}
static int mutex_section(void) {
    pthread_mutex_lock(&mutex);
    sched_yield();
    pthread_mutex_unlock(&mutex);
    sched_yield();
    return 0;
}
static void sync_mutex(void) {
    pthread_t thread;
    stop = 0;
    if ((errno = pthread_create(&thread, NULL, mutex_partner, NULL)) != 0) {
        refuse("pthread_create");
        measure(1, mutex_section);
        return;
    }
    measure(500, mutex_section);
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
}

static void *condition_partner(void *unused) {
    pthread_mutex_lock(&mutex);
    while (!stop) {
        while (turn != 1 && !stop) {
            pthread_cond_wait(&condition, &mutex);
        }
        turn = 0;
        pthread_cond_broadcast(&condition);
    }
    pthread_mutex_unlock(&mutex);
    return unused;
}
static int condition_trip(void) {
    pthread_mutex_lock(&mutex);
    turn = 1;
    pthread_cond_broadcast(&condition);
    while (turn != 0) {
        pthread_cond_wait(&condition, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    return 0;
}
static void sync_condition(void) {
    pthread_t thread;
    stop = turn = 0;
    if ((errno = pthread_create(&thread, NULL, condition_partner, NULL)) != 0) {
        refuse("pthread_create");
        measure(1, condition_trip);
        return;
    }
    measure(500, condition_trip);
    pthread_mutex_lock(&mutex);
    stop = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
}

/* ---- pipe throughput ---- */

static char block[65536];
static size_t block_size;
static int write_block(void) { return write(to_child, block, block_size) == (ssize_t)block_size ? 0 : refuse("write"); }

/* Per block, while a child reads blocks of the same size. */
static void pipe_blocks(size_t size) {
    int p[2];
    block_size = size;
    if (pipe(p) < 0) {
        refuse("pipe");
        measure(1, write_block);
        return;
    }
    partner = fork();
    if (partner == 0) {
        close(p[1]);
        while (read(p[0], block, size) > 0) {
        }
        _exit(0);
    }
    close(p[0]);
    to_child = p[1];
    measure(200, write_block);
    close(p[1]);
    waitpid(partner, NULL, 0);
}
static void pipe_1k(void) { pipe_blocks(1024); }
static void pipe_16k(void) { pipe_blocks(16384); }
static void pipe_64k(void) { pipe_blocks(65536); }

/* ---- processes and threads ---- */

static int wait_for(pid_t pid) {
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        return refuse("child");
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : (errno = 0, refuse("child's status"));
}
static int do_fork(void) {
    pid_t pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    return wait_for(pid);
}
static int do_vfork_exec(void) {
    char *const arguments[] = {(char *)self, "--nothing", NULL}, *const environment[] = {NULL};
    pid_t pid = vfork();
    if (pid == 0) {
        execve(self, arguments, environment);
        _exit(127);
    }
    return wait_for(pid);
}
static int do_spawn(void) {
    char *const arguments[] = {"true", NULL}, *const environment[] = {NULL};
    pid_t pid;
    if ((errno = posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environment)) != 0) {
        return refuse("posix_spawn");
    }
    return wait_for(pid);
}
static int do_shell(void) {
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "true", (char *)NULL);
        _exit(127);
    }
    return wait_for(pid);
}
static void *no_work(void *unused) { return unused; }
static int do_thread(void) {
    pthread_t thread;
    if ((errno = pthread_create(&thread, NULL, no_work, NULL)) != 0) {
        return refuse("pthread_create");
    }
    return pthread_join(thread, NULL);
}
static void process_fork(void) { measure(20, do_fork); }
static void process_vfork_exec(void) { measure(20, do_vfork_exec); }
static void process_spawn(void) { measure(10, do_spawn); }
/* Of a copy with set-id bits, whose owner is not the caller. */
static const char *const set_id = "/tmp/true-set-id";
static int do_set_id(void) {
    char *const arguments[] = {"true", NULL}, *const environment[] = {NULL};
    pid_t pid;
    if ((errno = posix_spawn(&pid, set_id, NULL, NULL, arguments, environment)) != 0) {
        return refuse("posix_spawn");
    }
    return wait_for(pid);
}
static void process_set_id(void) {
    int from = open("/bin/true", O_RDONLY), to = open(set_id, O_CREAT | O_TRUNC | O_WRONLY, 0755);
    ssize_t count = 1;
    static char block[65536];
    while (count > 0 && (count = read(from, block, sizeof block)) > 0) {
        count = write(to, block, count);
    }
    if (count < 0 || fchown(to, 77, 77) < 0 || fchmod(to, 06755) < 0) {
        refuse("copy");
    }
    close(from);
    close(to);
    if (refused == NULL) {
        measure(10, do_set_id);
    }
    unlink(set_id);
}
static void process_shell(void) { measure(10, do_shell); }
static void process_thread(void) { measure(50, do_thread); }

/* ---- signals ---- */

static void no_handler(int signal) { (void)signal; }
static int do_kill_self(void) { return kill(getpid(), SIGUSR1); }
static void signal_self(void) {
    signal(SIGUSR1, no_handler);
    measure(500, do_kill_self);
}

static sigset_t usr1;
static int signal_trip(void) {
    int got;
    return kill(partner, SIGUSR1) < 0 || sigwait(&usr1, &got) != 0 ? refuse("signal") : 0;
}
static void signal_ping_pong(void) {
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    pid_t parent = getpid();
    partner = fork();
    if (partner == 0) {
        int got;
        for (;;) {
            sigwait(&usr1, &got);
            kill(parent, SIGUSR1);
        }
    }
    measure(500, signal_trip);
    kill(partner, SIGKILL);
    waitpid(partner, NULL, 0);
    sigprocmask(SIG_UNBLOCK, &usr1, NULL);
}

/* ---- memory ---- */

static char *area;
static size_t touched;
enum { TOUCHES = 256 };

static int fresh_area(void) {
    if (area) {
        munmap(area, TOUCHES * PAGE);
    }
    area = mmap(NULL, TOUCHES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    touched = 0;
    return area == MAP_FAILED ? refuse("mmap") : 0;
}
static int touch_next(void) {
    *(volatile char *)(area + touched++ * PAGE) = 1;
    return 0;
}
static int do_map_unmap(void) {
    char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return refuse("mmap");
    }
    return munmap(p, PAGE);
}
static int do_protect(void) {
    static int writable;
    writable = !writable;
    return mprotect(area, PAGE, writable ? PROT_READ | PROT_WRITE : PROT_READ);
}
static void memory_touch(void) {
    measure_prepared(TOUCHES, fresh_area, touch_next);
    munmap(area, TOUCHES * PAGE);
    area = NULL;
}
static void memory_copy_on_write(void) {
    uint64_t samples[BATCHES];
    for (int batch = -1; batch < BATCHES && !refused; batch++) {
        if (fresh_area() < 0) {
            break;
        }
        memset(area, 1, TOUCHES * PAGE);
        int done[2], go[2];
        if (pipe(done) < 0 || pipe(go) < 0) {
            refuse("pipe");
            break;
        }
        /* The child holds the pages so that each of the parent's writes copies. */
        pid_t pid = fork();
        char c = 0;
        if (pid == 0) {
            close(go[1]);
            _exit(read(go[0], &c, 1) < 0);
        }
        uint64_t start = ticks();
        for (int i = 0; i < TOUCHES; i++) {
            touch_next();
        }
        if (batch >= 0) {
            samples[batch] = (ticks() - start) / TOUCHES;
        }
        close(go[1]);
        waitpid(pid, NULL, 0);
        close(go[0]);
        close(done[0]);
        close(done[1]);
    }
    report(samples, BATCHES);
    munmap(area, TOUCHES * PAGE);
    area = NULL;
}
static void memory_map_unmap(void) { measure(200, do_map_unmap); }
static void memory_protect(void) {
    fresh_area();
    memset(area, 1, PAGE);
    measure(500, do_protect);
    munmap(area, TOUCHES * PAGE);
    area = NULL;
}

/* ---- files ---- */

static int file;
static char path[256], other[256];
static int file_block;
static unsigned random_state = 1;

static unsigned next_random(void) {
    random_state = random_state * 1103515245 + 12345;
    return random_state >> 16;
}
static int open_file(int flags) {
    snprintf(path, sizeof path, "%s/bench-file", directory);
    file = open(path, flags, 0600);
    file_block = 0;
    return file < 0 ? refuse("open") : 0;
}
static int full_file(void) {
    if (open_file(O_RDWR | O_CREAT | O_TRUNC) < 0) {
        return -1;
    }
    for (int i = 0; i < FILE_BLOCKS; i++) {
        if (write(file, block, BLOCK) != BLOCK) {
            return refuse("write");
        }
    }
    return lseek(file, 0, SEEK_SET) < 0 ? refuse("lseek") : 0;
}
static int rewind_file(void) { return lseek(file, 0, SEEK_SET) < 0 ? refuse("lseek") : 0; }
static int empty_file(void) { return ftruncate(file, 0) < 0 ? refuse("ftruncate") : rewind_file(); }
static int read_block(void) { return read(file, block, BLOCK) == BLOCK ? 0 : refuse("read"); }
static int read_random(void) {
    off_t at = (off_t)(next_random() % (2 * FILE_BLOCKS)) * PAGE;
    return pread(file, block, PAGE, at) == PAGE ? 0 : refuse("pread");
}
static int write_next(void) { return write(file, block, BLOCK) == BLOCK ? 0 : refuse("write"); }
static int do_open(void) {
    int fd = open(path, O_RDONLY);
    return fd < 0 ? refuse("open") : close(fd);
}
static int do_stat(void) {
    struct stat st;
    return stat(path, &st);
}
static int created;
static int do_create(void) {
    snprintf(other, sizeof other, "%s/bench-new-%d", directory, created++);
    int fd = open(other, O_WRONLY | O_CREAT | O_EXCL, 0600);
    return fd < 0 ? refuse("open") : close(fd);
}
static int remove_created(void) {
    for (; created > 0; created--) {
        snprintf(other, sizeof other, "%s/bench-new-%d", directory, created - 1);
        unlink(other);
    }
    return 0;
}
static int do_create_unlink(void) {
    snprintf(other, sizeof other, "%s/bench-new", directory);
    int fd = open(other, O_WRONLY | O_CREAT | O_EXCL, 0600);
    return fd < 0 ? refuse("open") : close(fd) < 0 ? -1 : unlink(other);
}
static void close_file(void) {
    close(file);
    unlink(path);
}

static void file_read(void) {
    full_file();
    measure_prepared(FILE_BLOCKS, rewind_file, read_block);
    close_file();
}
static void file_read_random(void) {
    full_file();
    measure(200, read_random);
    close_file();
}
static void file_write_new(void) {
    open_file(O_RDWR | O_CREAT | O_TRUNC);
    measure_prepared(FILE_BLOCKS, empty_file, write_next);
    close_file();
}
static void file_write_over(void) {
    full_file();
    measure_prepared(FILE_BLOCKS, rewind_file, write_next);
    close_file();
}
static void file_open(void) {
    full_file();
    measure(500, do_open);
    close_file();
}
static void file_stat(void) {
    full_file();
    measure(500, do_stat);
    close_file();
}
static void file_create(void) {
    measure_prepared(100, remove_created, do_create);
    remove_created();
}
static void file_create_unlink(void) { measure(100, do_create_unlink); }

static char *mapped;
static int map_file(void) {
    if (mapped) {
        munmap(mapped, FILE_BLOCKS * BLOCK);
    }
    mapped = mmap(NULL, FILE_BLOCKS * BLOCK, PROT_READ, MAP_SHARED, file, 0);
    touched = 0;
    return mapped == MAP_FAILED ? refuse("mmap") : 0;
}
static int touch_mapped(void) {
    (void)*(volatile char *)(mapped + touched++ * PAGE);
    return 0;
}
static void file_mapped_touch(void) {
    full_file();
    measure_prepared(FILE_BLOCKS * BLOCK / PAGE, map_file, touch_mapped);
    munmap(mapped, FILE_BLOCKS * BLOCK);
    mapped = NULL;
    close_file();
}

/* Of a private mapping that is written, every page is copied. */
static int map_private(void) {
    if (mapped) {
        munmap(mapped, FILE_BLOCKS * BLOCK);
    }
    mapped = mmap(NULL, FILE_BLOCKS * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    touched = 0;
    return mapped == MAP_FAILED ? refuse("mmap") : 0;
}
static int write_mapped(void) {
    *(volatile char *)(mapped + touched++ * PAGE) = 1;
    return 0;
}
static void file_private_write(void) {
    full_file();
    measure_prepared(FILE_BLOCKS * BLOCK / PAGE, map_private, write_mapped);
    munmap(mapped, FILE_BLOCKS * BLOCK);
    mapped = NULL;
    close_file();
}

static int do_copy(void) {
    pid_t pid = vfork();
    if (pid == 0) {
        execl("/bin/busybox", "cp", path, other, (char *)NULL);
        _exit(127);
    }
    return wait_for(pid);
}
static void file_copy_8m(void) {
    open_file(O_RDWR | O_CREAT | O_TRUNC);
    for (int i = 0; i < 8 * 1024 * 1024 / BLOCK && !refused; i++) {
        write_next();
    }
    snprintf(other, sizeof other, "%s/bench-copy", directory);
    measure(1, do_copy);
    unlink(other);
    close_file();
}

/* A program with its interpreter and C library beside it. Their names in it are relative: it runs wherever it lies, from there. */
static int copy_here(const char *from) {
    snprintf(other, sizeof other, "/lib/bench/%s", from);
    int in = open(other, O_RDONLY), out = open(from, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    ssize_t length = in < 0 || out < 0 ? -1 : 0;
    while (length >= 0 && (length = read(in, block, sizeof block)) > 0) {
        if (write(out, block, length) != length) {
            length = -1;
        }
    }
    close(in);
    close(out);
    return length < 0 ? refuse(from) : 0;
}
static int do_dynamic(void) {
    pid_t pid = vfork();
    if (pid == 0) {
        execl("./dynamic", "dynamic", (char *)NULL);
        _exit(127);
    }
    return wait_for(pid);
}
static void file_exec_dynamic(void) {
    static const char *const names[] = {"dynamic", "ld.so", "libc.so.6"};
    if (chdir(directory) < 0) {
        refuse("chdir");
    }
    for (int i = 0; i < 3 && !refused; i++) {
        copy_here(names[i]);
    }
    measure(10, do_dynamic);
    for (int i = 0; i < 3; i++) {
        unlink(names[i]);
    }
    chdir("/");
}

/* ---- the list ---- */

struct operation {
    const char *name;
    void (*run)(void);
};

static const struct operation operations[] = {
    {"getppid", small_getppid},
    {"clock_gettime", small_clock},
    {"sched_yield", small_yield},
    {"sched_yield-8", small_yield_8},
    {"read-zero", small_read_zero},
    {"write-null", small_write_null},
    {"brk", small_brk},
    {"brk-touch", small_brk_touch},
    {"pipe-trip", message_pipe},
    {"socketpair-trip", message_socketpair},
    {"eventfd-trip", message_eventfd},
    {"futex-trip", sync_futex},
    {"sysv-message-trip", message_sysv},
    {"posix-mq-trip", message_posix},
    {"semaphore-ring-8", sync_ring_8},
    {"mutex-contended", sync_mutex},
    {"condition-trip", sync_condition},
    {"pipe-1k", pipe_1k},
    {"pipe-16k", pipe_16k},
    {"pipe-64k", pipe_64k},
    {"fork-exit-wait", process_fork},
    {"vfork-exec-wait", process_vfork_exec},
    {"spawn-true", process_spawn},
    {"spawn-set-id", process_set_id},
    {"fork-exec-sh", process_shell},
    {"thread-create-join", process_thread},
    {"kill-self", signal_self},
    {"signal-ping-pong", signal_ping_pong},
    {"touch", memory_touch},
    {"copy-on-write", memory_copy_on_write},
    {"mmap-munmap", memory_map_unmap},
    {"mprotect", memory_protect},
    {"tmpfs-read-8k", file_read},
    {"tmpfs-read-random-4k", file_read_random},
    {"tmpfs-write-8k-new", file_write_new},
    {"tmpfs-write-8k-over", file_write_over},
    {"tmpfs-open-close", file_open},
    {"tmpfs-stat", file_stat},
    {"tmpfs-creat-close", file_create},
    {"tmpfs-creat-close-unlink", file_create_unlink},
    {"tmpfs-mapped-touch", file_mapped_touch},
    {"tmpfs-cp-8m", file_copy_8m},
    {"epoll-wait-1-of-10", ready_wait_10},
    {"epoll-wait-1-of-100", ready_wait_100},
    {"epoll-wait-1-of-10000", ready_wait_10000},
    {"epoll-add-del", ready_change},
    {"epoll-add-del-new", ready_change_new},
    {"poll-1-of-100", ready_poll_100},
    {"tcp-loopback-64", message_tcp},
    {"udp-echo", message_udp},
};

static const struct operation on_disk[] = {
    {"ext4-read-8k", file_read},
    {"ext4-read-random-4k", file_read_random},
    {"ext4-write-8k-new", file_write_new},
    {"ext4-write-8k-over", file_write_over},
    {"ext4-open-close", file_open},
    {"ext4-stat", file_stat},
    {"ext4-creat-close", file_create},
    {"ext4-creat-close-unlink", file_create_unlink},
    {"ext4-mapped-touch", file_mapped_touch},
    {"ext4-private-write", file_private_write},
    {"ext4-cp-8m", file_copy_8m},
    {"ext4-exec-dynamic", file_exec_dynamic},
};

static int wanted(const char *operation, char **names) {
    if (!*names) {
        return 1;
    }
    for (; *names; names++) {
        if (strncmp(operation, *names, strlen(*names)) == 0) {
            return 1;
        }
    }
    return 0;
}

/* This program once more, for one operation. */
static int in_a_process(const char *operation) {
    char *const arguments[] = {(char *)self, "--row", (char *)operation, (char *)directory, NULL}, *const environment[] = {NULL};
    pid_t pid;
    if ((errno = posix_spawn(&pid, self, NULL, NULL, arguments, environment)) != 0) {
        perror(self);
        return -1;
    }
    return wait_for(pid);
}

static void run_named(const struct operation *list, size_t count, const char *operation) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].name, operation) == 0) {
            name = list[i].name;
            list[i].run();
        }
    }
}

/* What that one does. */
static int row(const char *operation) {
    memset(block, 'c', sizeof block);
    shared_words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared_words == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    run_named(operations, sizeof operations / sizeof *operations, operation);
    run_named(on_disk, sizeof on_disk / sizeof *on_disk, operation);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--nothing") == 0) {
        return 0;
    }
    self = argv[0];
    if (argc == 4 && strcmp(argv[1], "--row") == 0) {
        directory = argv[3];
        return row(argv[2]);
    }
    const struct operation *list = operations;
    size_t count = sizeof operations / sizeof *operations;
    char **names = argv + 1;
    if (argc > 2 && strcmp(argv[1], "--disk") == 0) {
        directory = argv[2];
        list = on_disk;
        count = sizeof on_disk / sizeof *on_disk;
        names = argv + 3;
    }
    for (size_t i = 0; i < count; i++) {
        if (wanted(list[i].name, names) && in_a_process(list[i].name) < 0) {
            return 1;
        }
    }
    return 0;
}
