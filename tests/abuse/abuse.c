/* What an ordinary user may do to the machine: as many of one thing as it gives, for some seconds, by one program or several of user 1000 at once.
 * Beside them a program of user 0 does a round of work every 10 ms, and one of user 1001 keeps its memory. What must hold:
 *  - no operation of user 0's program fails, and no round of it takes longer than PATIENCE;
 *  - the program of user 1001 lives, and its memory is as it was;
 *  - when the bombs were killed the memory that is free is within 1 % of what was free before.
 * Usage: abuse BOMB COPIES SECONDS. Says "good" alone, or what is wrong; the latest round on standard error. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum { BOMBER = 1000, INNOCENT = 1001, ROUND_MS = 10, INNOCENT_BYTES = 1 << 20 };
/* Far beyond what priorities allow: the test must not depend on how fast the host is. The latest round is told. */
enum { PATIENCE_MS = 20000 };
/* The bombs' files are here, and are removed by user 0 at the end. */
static const char *const folder = "/tmp/abuse";

static long long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static void rest(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

/* Bombs. Each does its worst for ever; what it is refused it tries again. */

static void fork_bomb(void) {
    for (;;) {
        if (fork() < 0) {
            sched_yield();
        }
    }
}

static void *thread_waits(void *nothing) {
    for (;;) {
        pause();
    }
    return nothing;
}

static void thread_bomb(void) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, &small, thread_waits, NULL) != 0 && fork() < 0) {
            rest(10);
        }
    }
}

/* Single pages of two kinds in turn, which cannot be one region, and shared objects. */
static void mapping_bomb(void) {
    for (unsigned i = 0;; i++) {
        int prot = i % 2 ? PROT_READ : PROT_READ | PROT_WRITE;
        int kind = i % 4 == 3 ? MAP_SHARED : MAP_PRIVATE;
        char *p = mmap(NULL, 4096, prot, kind | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) {
            if (fork() < 0) {
                rest(10);
            }
        } else if (prot & PROT_WRITE) {
            *(volatile char *)p = 1;
        }
    }
}

static void memory_bomb(void) {
    for (;;) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p != MAP_FAILED) {
            memset(p, 1, 1 << 20);
        }
    }
}

/* Children touch shared memory and end. */
static void shared_bomb(void) {
    for (;;) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pid_t child = p == MAP_FAILED ? -1 : fork();
        if (child == 0) {
            memset(p, 1, 1 << 20);
            _exit(0);
        }
        if (child > 0) {
            waitpid(child, NULL, 0);
        }
    }
}

static void descriptor_bomb(void) {
    for (unsigned i = 0;; i++) {
        char name[64];
        snprintf(name, sizeof name, "d-%d-%u", getpid(), i % 64);
        if (open(name, O_RDWR | O_CREAT, 0600) < 0 && fork() < 0) {
            rest(10);
        }
    }
}

static void pipe_bomb(void) {
    static char block[65536];
    for (;;) {
        int ends[2];
        if (pipe2(ends, O_NONBLOCK) != 0) {
            if (fork() < 0) {
                rest(10);
            }
            continue;
        }
        fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
        while (write(ends[1], block, sizeof block) > 0) {
        }
    }
}

static void file_bomb(void) {
    static char block[65536];
    for (unsigned i = 0;; i++) {
        char name[64];
        snprintf(name, sizeof name, "f-%d-%u", getpid(), i);
        int fd = open(name, O_WRONLY | O_CREAT, 0600);
        if (fd < 0) {
            rest(1);
            continue;
        }
        for (int n = 0; n < 16 && write(fd, block, sizeof block) > 0; n++) {
        }
        close(fd);
    }
}

static void depth_bomb(void) {
    char name[201];
    memset(name, 'd', sizeof name - 1);
    name[sizeof name - 1] = 0;
    for (;;) {
        if (mkdir(name, 0700) != 0 && errno != EEXIST) {
            rest(1);
        }
        if (chdir(name) != 0) {
            chdir(folder);
            snprintf(name, 24, "%d-%lld", getpid(), now_ms());
            memset(name + strlen(name), 'd', sizeof name - 1 - strlen(name));
        }
    }
}

static void link_bomb(void) {
    char target[4001], name[64];
    memset(target, 't', sizeof target - 1);
    target[sizeof target - 1] = 0;
    for (unsigned i = 0;; i++) {
        snprintf(name, sizeof name, "l-%d-%u", getpid(), i);
        if (symlink(target, name) != 0) {
            rest(1);
        }
    }
}

static void take_signal(int signal) { (void)signal; }

static void timer_bomb(void) {
    for (int i = 0; i < 4; i++) {
        fork();
    }
    signal(SIGUSR1, take_signal);
    for (int i = 0; i < 64; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        struct itimerspec at = {{0, 1}, {0, 1}};
        timer_t timer;
        if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0) {
            timer_settime(timer, 0, &at, NULL);
        }
    }
    for (;;) {
        pause();
    }
}

static void signal_bomb(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    pid_t child = fork();
    pid_t target = child > 0 ? child : getppid();
    for (;;) {
        union sigval value = {.sival_int = 1};
        if (sigqueue(getpid(), SIGRTMIN + 1, value) != 0 && sigqueue(target, SIGRTMIN + 2, value) != 0 && fork() < 0) {
            rest(10);
        }
    }
}

static int *words;

static void *futex_waits(void *place) {
    for (;;) {
        syscall(SYS_futex, place, FUTEX_WAIT, 0, NULL, NULL, 0);
    }
    return NULL;
}

static void futex_bomb(void) {
    words = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (words == MAP_FAILED) {
        return;
    }
    fork();
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (unsigned i = 0;; i++) {
        pthread_t thread;
        if (i < 2000) {
            pthread_create(&thread, &small, futex_waits, words + i % 16384);
        }
        syscall(SYS_futex, words + i * 7 % 16384, FUTEX_WAKE, i % 3, NULL, NULL, 0);
    }
}

static void argument_bomb(void) {
    enum { COUNT = 31, BYTES = 100000 };
    static char text[BYTES];
    static char *arguments[COUNT + 1];
    memset(text, 'a', BYTES - 1);
    for (int i = 0; i < COUNT; i++) {
        arguments[i] = text;
    }
    for (int i = 0;; i++) {
        pid_t child = fork();
        if (child == 0) {
            execve(i % 2 ? "/bin/true" : "/nothing", arguments, arguments);
            _exit(1);
        }
        if (child > 0 && i % 8 == 0) {
            while (waitpid(-1, NULL, 0) > 0) {
            }
        }
    }
}

/* Filled pairs, each of which is sent through the next where the system can do that. */
static void socket_bomb(void) {
    static char block[65536];
    int last = -1;
    for (;;) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) {
            if (fork() < 0) {
                rest(10);
            }
            continue;
        }
        while (write(ends[0], block, sizeof block) > 0) {
        }
        if (last >= 0) {
            struct iovec data = {block, 1};
            union {
                struct cmsghdr head;
                char bytes[CMSG_SPACE(sizeof(int))];
            } control = {{0}};
            struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes};
            control.head.cmsg_level = SOL_SOCKET;
            control.head.cmsg_type = SCM_RIGHTS;
            control.head.cmsg_len = CMSG_LEN(sizeof(int));
            memcpy(CMSG_DATA(&control.head), &last, sizeof last);
            sendmsg(ends[1], &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        last = ends[0];
    }
}

static void lock_bomb(void) {
    char name[64];
    snprintf(name, sizeof name, "k-%d", getpid());
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    for (off_t at = 0;; at += 2) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
        if (fcntl(fd, F_SETLK, &lock) != 0) {
            rest(1);
        }
    }
}

static void epoll_bomb(void) {
    int ends[2] = {-1, -1};
    pipe(ends);
    for (;;) {
        int set = epoll_create1(0);
        if (set < 0) {
            if (fork() < 0) {
                rest(10);
            }
            continue;
        }
        struct epoll_event event = {.events = EPOLLIN};
        epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
        for (int fd = set - 8; fd < set; fd++) {
            epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
        }
    }
}

/* One more of those who do it, where this one has all that it gets. */
static void go_on_in_a_child(void) {
    if (fork() < 0) {
        rest(10);
    }
}

/* Asynchronous reads and writes that never end, in as many contexts as there are. */
static void aio_bomb(void) {
    static char block[4096];
    int ends[2] = {-1, -1};
    pipe(ends);
    for (;;) {
        aio_context_t context = 0;
        if (syscall(SYS_io_setup, 128, &context) != 0) {
            go_on_in_a_child();
            continue;
        }
        struct iocb read = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = ends[0], .aio_buf = (uintptr_t)block, .aio_nbytes = sizeof block};
        struct iocb *all[] = {&read};
        while (syscall(SYS_io_submit, context, 1, all) == 1) {
        }
    }
}

/* Extended attributes, as many and as long as there may be, of files without end. */
static void attribute_bomb(void) {
    static char value[60000];
    for (unsigned i = 0;; i++) {
        char name[64];
        snprintf(name, sizeof name, "a-%d-%u", getpid(), i);
        int fd = open(name, O_WRONLY | O_CREAT, 0600);
        if (fd < 0) {
            rest(1);
            continue;
        }
        for (int n = 0; n < 64; n++) {
            snprintf(name, sizeof name, "user.%d", n);
            if (fsetxattr(fd, name, value, n % 2 ? sizeof value : 10, 0) != 0) {
                break;
            }
        }
        close(fd);
    }
}

/* Filters of system calls, each as long as one may be, one upon the other. */
static void filter_bomb(void) {
    enum { LENGTH = 4096 };
    static struct sock_filter lines[LENGTH];
    for (int i = 0; i < LENGTH; i++) {
        lines[i] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    }
    lines[LENGTH - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    struct sock_fprog program = {LENGTH, lines};
    for (;;) {
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
            go_on_in_a_child();
        }
    }
}

/* Internet sockets: full datagram queues, connections that nobody accepts, bytes that nobody reads. */
static void internet_bomb(void) {
    static char block[32768];
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), target = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in stream = name, datagram = name;
    bind(listener, (struct sockaddr *)&stream, length);
    bind(target, (struct sockaddr *)&datagram, length);
    listen(listener, 4096);
    getsockname(listener, (struct sockaddr *)&stream, &length);
    getsockname(target, (struct sockaddr *)&datagram, &length);
    for (unsigned i = 0;; i++) {
        int one = socket(AF_INET, (i % 2 ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK, 0);
        if (one < 0) {
            go_on_in_a_child();
            continue;
        }
        const struct sockaddr_in *to = i % 2 ? &stream : &datagram;
        connect(one, (const struct sockaddr *)to, sizeof *to);
        for (int n = 0; n < 64 && send(one, block, sizeof block, MSG_NOSIGNAL | MSG_DONTWAIT) > 0; n++) {
        }
        if (i % 4 == 3) {
            accept(listener, NULL, NULL);
        }
    }
}

/* Keys of users: long ones, in key rings of their own. */
static void key_bomb(void) {
    enum { PROCESS_KEYRING = -2, USER_KEYRING = -4 };
    static char payload[32000];
    for (unsigned i = 0;; i++) {
        char name[64];
        snprintf(name, sizeof name, "key-%d-%u", getpid(), i);
        long ring = syscall(SYS_add_key, "keyring", name, NULL, 0, PROCESS_KEYRING);
        if (syscall(SYS_add_key, "user", name, payload, sizeof payload, ring < 0 ? USER_KEYRING : ring) < 0) {
            go_on_in_a_child();
        }
    }
}

/* Memory that has a descriptor and no mapping, and counters that nobody reads. */
static void memfd_bomb(void) {
    static char block[65536];
    for (;;) {
        int memory = syscall(SYS_memfd_create, "bomb", 0);
        if (memory < 0 || eventfd(1, 0) < 0 || timerfd_create(CLOCK_MONOTONIC, 0) < 0) {
            go_on_in_a_child();
            continue;
        }
        for (int n = 0; n < 16 && write(memory, block, sizeof block) > 0; n++) {
        }
        int timer = timerfd_create(CLOCK_MONOTONIC, 0);
        struct itimerspec at = {{0, 1}, {0, 1}};
        timerfd_settime(timer, 0, &at, NULL);
    }
}

/* Messages, semaphores and segments of System V, and POSIX queues, none of which ends with its maker. */
static void queue_bomb(void) {
    static struct {
        long type;
        char text[8192];
    } message = {1, {0}};
    for (unsigned i = 0;; i++) {
        int queue = msgget(IPC_PRIVATE, 0600);
        while (queue >= 0 && msgsnd(queue, &message, sizeof message.text, IPC_NOWAIT) == 0) {
        }
        int set = semget(IPC_PRIVATE, 250, 0600);
        struct sembuf up = {249, 1, SEM_UNDO};
        int segment = shmget(IPC_PRIVATE, 1 << 18, 0600);
        char *at = segment < 0 ? (char *)-1 : shmat(segment, NULL, 0);
        if (at != (char *)-1) {
            memset(at, 1, 1 << 18);
        }
        char name[64];
        snprintf(name, sizeof name, "/abuse-%d-%u", getpid(), i);
        struct mq_attr attributes = {.mq_maxmsg = 10, .mq_msgsize = 8192};
        mqd_t posix = mq_open(name, O_RDWR | O_CREAT | O_NONBLOCK, 0600, &attributes);
        while (posix >= 0 && mq_send(posix, message.text, sizeof message.text, 1) == 0) {
        }
        if (semop(set, &up, 1) != 0 && queue < 0 && posix < 0) {
            go_on_in_a_child();
        }
    }
}

/* What those have left goes with who made it, or by hand. */
static void remove_queues(void) {
    struct seminfo numbers;
    struct msginfo queues;
    struct shm_info segments;
    struct msqid_ds queue;
    struct semid_ds set;
    struct shmid_ds segment;
    for (int i = msgctl(0, MSG_INFO, (struct msqid_ds *)&queues); i >= 0; i--) {
        int id = msgctl(i, MSG_STAT, &queue);
        if (id >= 0 && queue.msg_perm.cuid == BOMBER) {
            msgctl(id, IPC_RMID, NULL);
        }
    }
    for (int i = semctl(0, 0, SEM_INFO, &numbers); i >= 0; i--) {
        int id = semctl(i, 0, SEM_STAT, &set);
        if (id >= 0 && set.sem_perm.cuid == BOMBER) {
            semctl(id, 0, IPC_RMID);
        }
    }
    for (int i = shmctl(0, SHM_INFO, (struct shmid_ds *)&segments); i >= 0; i--) {
        int id = shmctl(i, SHM_STAT, &segment);
        if (id >= 0 && segment.shm_perm.cuid == BOMBER) {
            shmctl(id, IPC_RMID, NULL);
        }
    }
    DIR *names = opendir("/dev/mqueue");
    for (struct dirent *entry; names != NULL && (entry = readdir(names)) != NULL;) {
        char name[300];
        snprintf(name, sizeof name, "/%s", entry->d_name);
        if (strncmp(name, "/abuse-", 7) == 0) {
            mq_unlink(name);
        }
    }
    if (names != NULL) {
        closedir(names);
    }
}

/* Name spaces, each with file systems in memory mounted one upon the other, full of files. */
static void space_bomb(void) {
    static char block[65536];
    for (;;) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS) != 0) {
            rest(1);
        }
        for (int n = 0; n < 16; n++) {
            if (mount("tmpfs", "/mnt", "tmpfs", 0, "") != 0) {
                break;
            }
            int fd = open("/mnt/full", O_WRONLY | O_CREAT, 0600);
            for (int i = 0; i < 16 && write(fd, block, sizeof block) > 0; i++) {
            }
            close(fd);
            mount("/mnt", "/tmp", NULL, MS_BIND, NULL);
        }
        go_on_in_a_child();
    }
}

/* Terminals, full of what nobody reads. */
static void terminal_bomb(void) {
    static char block[4096];
    for (;;) {
        char name[64];
        int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK);
        if (master < 0 || unlockpt(master) != 0 || ptsname_r(master, name, sizeof name) != 0) {
            go_on_in_a_child();
            continue;
        }
        int slave = open(name, O_RDWR | O_NOCTTY | O_NONBLOCK);
        while (write(slave, block, sizeof block) > 0) {
        }
        while (write(master, block, sizeof block) > 0) {
        }
    }
}

/* Watched files, and what happens to them is heard by nobody. */
static void watch_bomb(void) {
    char name[64];
    snprintf(name, sizeof name, "w-%d", getpid());
    for (;;) {
        int set = inotify_init1(IN_NONBLOCK);
        if (set < 0) {
            go_on_in_a_child();
            continue;
        }
        for (int i = 0; i < 64; i++) {
            char one[80];
            snprintf(one, sizeof one, "%s-%d", name, i);
            int fd = open(one, O_WRONLY | O_CREAT, 0600);
            inotify_add_watch(set, one, IN_ALL_EVENTS);
            inotify_add_watch(set, ".", IN_ALL_EVENTS);
            write(fd, "x", 1);
            close(fd);
        }
    }
}

static const struct {
    const char *name;
    void (*bomb)(void);
} bombs[] = {
    {"aio", aio_bomb},         {"argument", argument_bomb}, {"attribute", attribute_bomb}, {"depth", depth_bomb},       {"descriptor", descriptor_bomb},
    {"epoll", epoll_bomb},     {"file", file_bomb},         {"filter", filter_bomb},       {"fork", fork_bomb},         {"futex", futex_bomb},
    {"internet", internet_bomb}, {"key", key_bomb},         {"link", link_bomb},           {"lock", lock_bomb},         {"mapping", mapping_bomb},
    {"memfd", memfd_bomb},     {"memory", memory_bomb},     {"pipe", pipe_bomb},           {"queue", queue_bomb},       {"shared", shared_bomb},
    {"signal", signal_bomb},   {"socket", socket_bomb},     {"space", space_bomb},         {"terminal", terminal_bomb}, {"thread", thread_bomb},
    {"timer", timer_bomb},     {"watch", watch_bomb},
};

/* What is wrong goes to the parent by a pipe, so that nothing is lost when memory is short. */
static int say_to = 1;
static int wrong;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char line[200];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    write(say_to, line, length);
    wrong = 1;
}

static int must(const char *what, int result) {
    if (result < 0 && wrong < 1) {
        say("user 0: %s: %s\n", what, strerror(errno));
    }
    return result;
}

/* One thing of each server that a bomb is for. */
static void work_with_servers(unsigned round) {
    char back[16] = {0};
    int ends[2] = {-1, -1};
    must("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    must("write to socket", write(ends[0], "local", 5));
    must("read from socket", read(ends[1], back, sizeof back));
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    int here = must("datagram socket", socket(AF_INET, SOCK_DGRAM, 0));
    struct timeval patience = {PATIENCE_MS / 1000, 0};
    setsockopt(here, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    must("bind", bind(here, (struct sockaddr *)&name, length));
    must("getsockname", getsockname(here, (struct sockaddr *)&name, &length));
    must("sendto", sendto(here, "internet", 8, 0, (struct sockaddr *)&name, length));
    must("recv", recv(here, back, sizeof back, 0));
    int set = must("epoll_create", epoll_create1(0)), counter = must("eventfd", eventfd(1, 0));
    struct epoll_event event = {.events = EPOLLIN};
    must("epoll_ctl", epoll_ctl(set, EPOLL_CTL_ADD, counter, &event));
    must("epoll_wait", epoll_wait(set, &event, 1, -1));
    int files[] = {ends[0], ends[1], here, set, counter};
    for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
        close(files[i]);
    }
    switch (round % 8) {
    case 0: {
        int queue = must("msgget", msgget(IPC_PRIVATE, 0600));
        struct {
            long type;
            char text[8];
        } message = {1, "message"};
        must("msgsnd", msgsnd(queue, &message, sizeof message.text, 0));
        must("msgctl", msgctl(queue, IPC_RMID, NULL));
        break;
    }
    case 2: {
        int watches = must("inotify_init", inotify_init1(0));
        must("inotify_add_watch", inotify_add_watch(watches, "/run", IN_CREATE));
        close(watches);
        break;
    }
    case 4: {
        char slave[64];
        int master = must("ptmx", open("/dev/ptmx", O_RDWR | O_NOCTTY));
        must("unlockpt", unlockpt(master));
        if (ptsname_r(master, slave, sizeof slave) == 0) {
            close(must("terminal", open(slave, O_RDWR | O_NOCTTY)));
        }
        close(master);
        break;
    }
    case 6: {
        enum { PROCESS_KEYRING = -2, UNLINK = 9 };
        long key = must("add_key", syscall(SYS_add_key, "user", "abuse", "x", 1, PROCESS_KEYRING));
        must("keyctl", syscall(SYS_keyctl, UNLINK, key, PROCESS_KEYRING));
        int memory = must("memfd_create", syscall(SYS_memfd_create, "abuse", 0));
        must("write to memory", write(memory, back, sizeof back));
        close(memory);
        break;
    }
    }
}

/* A round of user 0's work: a file, a pipe, something of each server, now and then a process. */
static void work(unsigned round) {
    char name[64], text[64], back[64];
    snprintf(name, sizeof name, "/run/abuse-%d", getpid());
    int length = snprintf(text, sizeof text, "round %u\n", round);
    int fd = must("open", open(name, O_RDWR | O_CREAT, 0600));
    must("write", write(fd, text, length));
    must("lseek", lseek(fd, 0, SEEK_SET));
    if (must("read", read(fd, back, sizeof back)) != length || memcmp(text, back, length) != 0) {
        say("user 0: its file is another\n");
    }
    close(fd);
    must("unlink", unlink(name));
    int ends[2] = {-1, -1};
    must("pipe", pipe(ends));
    must("write to pipe", write(ends[1], text, length));
    must("read from pipe", read(ends[0], back, sizeof back));
    close(ends[0]);
    close(ends[1]);
    char *page = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        must("mmap", -1);
    } else {
        memset(page, 1, 16384);
        munmap(page, 16384);
    }
    work_with_servers(round);
    if (round % 16 == 0) {
        pid_t child = must("fork", fork());
        if (child == 0) {
            _exit(7);
        }
        int status = 0;
        must("wait", waitpid(child, &status, 0));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) {
            say("user 0: its child ended with %x\n", status);
        }
    }
}

static volatile sig_atomic_t over;

static void end_work(int signal) {
    (void)signal;
    over = 1;
}

static void be_important(void) {
    struct sched_param important = {.sched_priority = 10};
    must("sched_setscheduler", sched_setscheduler(0, SCHED_FIFO, &important));
}

static int watch(void) {
    be_important();
    signal(SIGTERM, end_work);
    long long latest = 0;
    unsigned rounds = 0;
    for (; !over && !wrong; rounds++) {
        long long begun = now_ms();
        work(rounds);
        rest(ROUND_MS);
        long long late = now_ms() - begun - ROUND_MS;
        latest = late > latest ? late : latest;
    }
    if (latest > PATIENCE_MS) {
        say("user 0: a round was %lld ms late\n", latest);
    }
    fprintf(stderr, "%u rounds, the latest by %lld ms\n", rounds, latest);
    return wrong;
}

/* A program of another user that asks for nothing. */
static int keep(void) {
    signal(SIGTERM, end_work);
    unsigned char *memory = malloc(INNOCENT_BYTES);
    for (int i = 0; i < INNOCENT_BYTES; i++) {
        memory[i] = i * 31;
    }
    while (!over) {
        rest(ROUND_MS);
    }
    for (int i = 0; i < INNOCENT_BYTES; i++) {
        if (memory[i] != (unsigned char)(i * 31)) {
            say("user 1001: its memory is another\n");
            break;
        }
    }
    return wrong;
}

static void become(int user) {
    if (setgid(user) != 0 || setuid(user) != 0) {
        _exit(99);
    }
}

static long free_kib(void) {
    char text[2048] = {0};
    int fd = open("/proc/meminfo", O_RDONLY);
    read(fd, text, sizeof text - 1);
    close(fd);
    long total = 0, number = 0;
    const char *const names[] = {"MemFree:", "Buffers:", "\nCached:"};
    for (unsigned i = 0; i < 3; i++) {
        const char *at = strstr(text, names[i]);
        if (at != NULL && sscanf(at + strlen(names[i]), "%ld", &number) == 1) {
            total += number;
        }
    }
    return total;
}

/* Kill all that user 1000 has, until no child is left: who loses its parent becomes a child of this program. As somebody more important than they are: among
   equals each wait would take its turn behind thousands of forks, and for each that has ended another one would begin meanwhile. */
static void kill_bombs(void) {
    be_important();
    for (;;) {
        pid_t killer = fork();
        if (killer == 0) {
            become(BOMBER);
            kill(-1, SIGKILL);
            _exit(0);
        }
        if (killer < 0) {
            say("user 0: cannot fork to kill: %s\n", strerror(errno));
            return;
        }
        /* Its own end is waited for; who else has ended is met by the way. */
        waitpid(killer, NULL, 0);
        pid_t gone;
        while ((gone = waitpid(-1, NULL, WNOHANG)) > 0) {
        }
        if (gone < 0 && errno == ECHILD) {
            return;
        }
        rest(5);
    }
}

/* Its status, when it was asked to end; -1 if it is not there any more. */
static int end_of(pid_t child) {
    int status = 0;
    pid_t gone = waitpid(child, &status, WNOHANG);
    if (gone == 0) {
        kill(child, SIGTERM);
        gone = waitpid(child, &status, 0);
    }
    return gone == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Call this for each name in a folder of the bombs, or in a folder of theirs. */
static int each_name(const char *path, int (*visit)(const char *from, const char *name)) {
    DIR *open = opendir(path);
    int seen = 0;
    for (struct dirent *entry; open != NULL && (entry = readdir(open)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            seen += visit(path, entry->d_name);
        }
    }
    if (open != NULL) {
        closedir(open);
    }
    return seen;
}

static int raise_name(const char *from, const char *name) {
    static unsigned number;
    char old[600], new[64];
    snprintf(old, sizeof old, "%s/%s", from, name);
    snprintf(new, sizeof new, "%s/raised-%u", folder, number++);
    if (rename(old, new) != 0) {
        say("user 0: cannot rename a file of the bombs: %s\n", strerror(errno));
    }
    return 1;
}

static int remove_name(const char *from, const char *name) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", from, name);
    if (unlink(path) != 0 && (errno == EISDIR || errno == EPERM)) {
        each_name(path, raise_name);
        if (rmdir(path) != 0) {
            say("user 0: cannot remove a folder of the bombs: %s\n", strerror(errno));
        }
    }
    return 1;
}

/* Paths are longer there than a path may be: what a folder has is moved up before it is removed. */
static void clean_up(void) {
    while (each_name(folder, remove_name) > 0) {
    }
    if (rmdir(folder) != 0) {
        say("user 0: cannot remove %s: %s\n", folder, strerror(errno));
    }
}

int main(int count, char **arguments) {
    void (*bomb)(void) = NULL;
    for (unsigned i = 0; count == 4 && i < sizeof bombs / sizeof bombs[0]; i++) {
        if (strcmp(bombs[i].name, arguments[1]) == 0) {
            bomb = bombs[i].bomb;
        }
    }
    if (bomb == NULL) {
        fprintf(stderr, "usage: abuse BOMB COPIES SECONDS; bombs:");
        for (unsigned i = 0; i < sizeof bombs / sizeof bombs[0]; i++) {
            fprintf(stderr, " %s", bombs[i].name);
        }
        fprintf(stderr, "\n");
        return 2;
    }
    setbuf(stdout, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    mkdir(folder, 0777);
    chmod(folder, 01777);
    /* Servers keep a little of what their first clients needed. */
    for (unsigned round = 0; round < 32; round++) {
        work(round);
    }
    long before = free_kib();

    pid_t innocent = fork();
    if (innocent == 0) {
        become(INNOCENT);
        _exit(keep());
    }
    pid_t watcher = fork();
    if (watcher == 0) {
        _exit(watch());
    }
    for (int i = 0; i < atoi(arguments[2]); i++) {
        /* The one who is ended for want of memory comes again. */
        if (fork() == 0) {
            become(BOMBER);
            chdir(folder);
            for (;;) {
                pid_t one = fork();
                if (one == 0) {
                    bomb();
                    _exit(0);
                }
                while (one > 0 && waitpid(one, NULL, 0) < 0 && errno == EINTR) {
                }
            }
        }
    }
    rest(atol(arguments[3]) * 1000);

    int its = end_of(innocent);
    if (its < 0) {
        say("user 1001: its program was ended\n");
    }
    wrong |= its != 0;
    its = end_of(watcher);
    if (its < 0) {
        say("user 0: its program was ended\n");
    }
    wrong |= its != 0;
    kill_bombs();
    clean_up();
    remove_queues();
    long after = 0;
    for (int i = 0; i < 100; i++) {
        after = free_kib();
        if (after >= before - before / 100) {
            break;
        }
        rest(100);
    }
    if (after < before - before / 100) {
        say("memory: %ld KiB were free before, %ld are afterwards\n", before, after);
    }
    if (!wrong) {
        puts("good");
    }
    return wrong;
}
