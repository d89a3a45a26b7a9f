/* Messages of every kind, sent below the Linux personality by programs of user 1000: the system-call library is plain memory of the process, so a hostile program goes through the
 * gate itself, with whatever registers it likes. Beside them a victim of user 0 has files, a lock, a FIFO, a pipe, shared memory in which somebody waits, a terminal, signals,
 * queues, semaphores and a segment of System V, a POSIX queue, a control group and settings, and looks at them every 10 ms. What must hold:
 *  - nothing of the victim changes, and no operation of its fails;
 *  - nothing of what it keeps for itself is read;
 *  - no component ends (the log of the nucleus says it, and the victim would notice).
 * Usage: messages SEED COUNT COPIES [ONLY]: so many messages by so many programs at once; the same seed makes the same programs. ONLY: one program, the number of which a report told.
 * Says "good" alone, or what is wrong. */
#define _GNU_SOURCE
#include "../c/gate.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { FOE = 1000, MOST = 16, EACH = 3000, ROUND_MS = 10 };
static const char *const home = "/run/victim", *const groups = "/sys/fs/cgroup";

/* What the victim keeps: two words that are made anew each time. Attackers have them under a mask, so that nothing of their own looks like them. */
static uint64_t secret[2];
static const uint64_t mask = 0x5a5a5a5a5a5a5a5a;

/* What attackers and their keeper share: how far each is, and what one of them has read. */
static struct shared {
    volatile uint64_t sent[MOST];
    /* The last message of each: selector and words. */
    struct gate last[MOST];
    volatile uint64_t leaks, leaked_by, leaked_message[4];
    volatile pid_t attackers[MOST];
    /* Why an attacker ended at its begin. (Its status says nothing: messages end it with any.) */
    volatile enum { NOT_BEGUN = 1, HAS_LOG } ended_for;
} *shared;

static int wrong;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
    wrong = 1;
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void rest(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

enum { CURRENT_DEADLINE = 4 };
#define PARTS (1ULL << 40)
#define OUT_VECTOR (1ULL << 41)
#define IN_VECTOR (1ULL << 42)
#define INTERRUPTIBLE (1ULL << 48)

/* What the victim has, and how it was at first. */
static struct {
    int file, fifo, pipe[2], master, slave, waits, waited, queue, semaphores, segment, grouped;
    mqd_t posix;
    unsigned char *attached;
    volatile uint32_t *words;
    pid_t waiter, holder;
    volatile sig_atomic_t signals;
    struct termios terminal;
    struct stat status, folder;
    struct utsname system;
    char mounts[4096];
} own;

static int write_text(const char *name, const char *text) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", groups, name);
    int file = open(path, O_WRONLY);
    int written = write(file, text, strlen(text));
    close(file);
    return written;
}

static void read_text(const char *name, char *to, size_t room) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", groups, name);
    int file = open(path, O_RDONLY);
    long got = read(file, to, room - 1);
    to[got > 0 ? got : 0] = 0;
    close(file);
}

/* The attackers */

static uint64_t state;

static uint64_t any(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1dULL;
}

static uint64_t below(uint64_t n) { return any() % n; }

struct letter {
    long kind;
    uint64_t text[2];
};

/* Memory that messages name: one page that can be read and written with another behind it, one to be read, one that is not there, and the edge of what is there. */
enum { ROOM = 8192 };
static unsigned char *room, *constant, *absent;
/* pids: its own, the victim's, 1, its parent's, those of two other attackers, which begin and end meanwhile. */
enum { PIDS = 6 };
static uint64_t pids[PIDS], ids[4];
static int top_slot;

static const char *const texts[] = {
    "/run/victim/secret", "run/victim/secret", "victim/secret", "secret", "/run/victim/fifo", "..", "../..", "../run/victim/secret", ".", "", "/", "/proc/1/mem", "1/maps",
    "1/environ", "self/fd/3", "self/root/run/victim/secret", "/dev/console", "dev:1:1", "dev:4:64", "dev:5:0", "dev:8:0", "dev:254:0", "fifo:1", "fifo:2", "fifo:7", "fifo:100",
    "pts:0", "tty:ttyS0", "socket:1", "local:1", "tmp/m", "/tmp/m", "new", "a/b", "nucleus", "sys/kernel/hostname", "proc", "user.x", "security.capability", "system.posix_acl_access",
    "/bin/sh", "/etc/passwd", "\xff\xfe", "x/../../run/victim", "tmpfs", "/run", "/sys/fs/cgroup", "victim", "../victim/cgroup.procs", "victim/memory.max", "cgroup.procs", "cgroup.kill", "+memory +pids", "-memory",
    "ipc:", "keys:", "/victim", "/foe",
};
enum { TEXTS = sizeof texts / sizeof *texts };

static uint64_t address(void) {
    switch (below(16)) {
    case 0: return (uint64_t)constant;
    case 1: return (uint64_t)absent;
    case 2: return (uint64_t)room + ROOM - 8;
    case 3: return 0;
    case 4: return below(4) << 62 | 0xffff800000000000;
    case 5: return 0x7fff80000000 + below(0x80) * 4096;
    case 6: return any();
    case 7: return (uint64_t)room + 4096 - below(64);
    default: return (uint64_t)room + below(64) * 8;
    }
}

static uint64_t length(void) {
    static const uint64_t some[] = {0, 1, 7, 8, 40, 41, 144, 255, 256, 4095, 4096, 4097, 8192, 65536, 1 << 20, 1ULL << 32, 1ULL << 63, ~0ULL};
    return some[below(sizeof some / sizeof *some)];
}

static uint64_t slot(void) {
    switch (below(8)) {
    case 0: return SLOT_VM;
    case 1: return SLOT_PROC;
    case 2: return SLOT_MOUNTS + below(MOUNTS);
    case 3: return below(4);
    case 4: return below(8) == 0 ? any() : below(256);
    default: return SLOT_FIRST + below(top_slot - SLOT_FIRST + 2);
    }
}

static uint64_t word(void) {
    switch (below(18)) {
    case 0: return 0;
    case 1: return 1;
    case 2: return below(16);
    case 16: return 1 << 20 | below(64);
    case 17: return any() << 32 | below(64);
    case 3: return ~0ULL - below(3);
    case 4: return 1ULL << below(64);
    case 5: return pids[below(PIDS)];
    case 6: return address();
    case 7: return length();
    case 8: return slot();
    case 9: return any();
    case 10: return below(2) == 0 ? below(2) * 1000 : ids[below(4)];
    case 11: return below(4096) | below(16) << 32;
    case 12: return (uint64_t)(uint32_t)any();
    case 13: return 1ULL << below(64) | 1ULL << below(64);
    case 14: return below(64) << 40 | 1ULL << 33 | below(16);
    default: return below(256);
    }
}

static void fill_room(void) {
    const char *text = texts[below(TEXTS)], *second = texts[below(TEXTS)];
    size_t at = below(3) * 8, n = strlen(text);
    memcpy(room + at, text, n + 1);
    strcpy((char *)room + at + n + 1, second);
    if (below(4) == 0) {
        for (int i = 0; i < 32; i++) {
            ((uint64_t *)room)[32 + i] = word();
        }
    }
}

/* Operations that do little unless their arguments fit: another's open file (FILE_OF), filters (SECCOMP), objects that have signals sent (SIGNALLER). */
static void make_fitting(struct gate *g) {
    static const uint16_t codes[] = {0x20, 0x15, 0x06, 0x35, 0x05, 0x25, 0x45, 0x54, 0x00, 0x02, 0x61, 0x07};
    static const uint32_t results[] = {0x7fff0000, 0x00050001, 0x00050026, 0x7ffc0000, 0x00030000, 0x80000000};
    struct {
        uint16_t code;
        uint8_t yes, no;
        uint32_t k;
    } *filter = (void *)room;
    memset(g, 0, sizeof *g);
    uint64_t to = SLOT_PROC, flags = below(2) == 0 ? INTERRUPTIBLE : 0, n = 1 + below(12);
    switch (below(3)) {
    case 0:
        g->words[0] = 51, g->words[1] = pids[below(PIDS)], g->words[2] = below(4) == 0 ? word() : 0;
        g->words[3] = below(8) == 0 ? 1ULL << 32 : below(96);
        break;
    case 1:
        g->words[0] = 52, g->words[1] = below(4), g->words[2] = below(4) == 0 ? word() : below(4);
        for (uint64_t i = 0; i < n; i++) {
            int last = i + 1 == n;
            filter[i].code = last ? 0x06 : codes[below(sizeof codes / sizeof *codes)];
            filter[i].yes = below(4), filter[i].no = below(4);
            filter[i].k = filter[i].code == 0x06 ? results[below(8) == 0 ? below(6) : 0] : below(4) == 0 ? (uint32_t)word() : filter[i].code == 0x20 ? below(16) * 4 : below(450);
        }
        flags |= PARTS, g->r14 = (uint64_t)room, g->r15 = 8 * n, g->rbx = (uint64_t)room + 4096, g->rbp = below(4097);
        break;
    default:
        g->words[0] = 78, g->words[1] = below(4) == 0 ? word() : below(65), g->words[2] = below(3) << 32 | pids[below(PIDS)];
        g->words[3] = below(96), g->words[4] = below(2), g->words[7] = slot();
        flags |= 1ULL << 44, to = below(2) == 0 ? SLOT_MOUNTS + below(MOUNTS) : slot();
    }
    g->rax = (uint32_t)to | flags;
}

static void make(struct gate *g) {
    if (below(32) == 0) {
        make_fitting(g);
        return;
    }
    uint64_t flags = 0;
    for (int i = 0; i < 8; i++) {
        g->words[i] = below(3) == 0 ? word() : below(4);
    }
    /* Most channels have fewer than 64 operations; a server's own begin there. */
    g->words[0] = below(32) == 0 ? word() : below(4) == 0 ? 64 + below(18) : below(64);
    g->r14 = g->r15 = g->rbx = g->rbp = 0;
    if (below(4) != 0) {
        flags |= PARTS;
        fill_room();
        g->r14 = below(4) == 0 ? address() : (uint64_t)room;
        g->r15 = below(4) == 0 ? length() : strlen((char *)room) + below(2);
        g->rbx = below(4) == 0 ? address() : (uint64_t)room + 4096;
        g->rbp = below(4) == 0 ? length() : below(4097);
        flags |= below(16) == 0 ? OUT_VECTOR : 0;
        flags |= below(16) == 0 ? IN_VECTOR : 0;
    } else if (below(2) == 0) {
        /* A path in words (idl/fs.idl, "Short paths"). */
        const char *text = texts[below(TEXTS)];
        size_t n = strlen(text) < 40 ? strlen(text) : 40;
        memset(&g->words[3], 0, 40);
        memcpy(&g->words[3], text, n);
        g->words[2] = below(4096) | 1ULL << 33 | n << 40;
    }
    if (below(8) == 0) {
        uint64_t n = below(5);
        flags |= n << 44;
        for (uint64_t i = 0; i < n; i++) {
            g->words[7 - i] = slot();
        }
        flags |= below(4) == 0 ? 1ULL << 47 : 0;
        flags |= below(4) == 0 ? 1ULL << 59 : 0;
        flags |= below(4) == 0 ? 1ULL << 60 : 0;
    }
    flags |= below(16) == 0 ? 1ULL << (40 + below(24)) : 0;
    flags |= below(2) == 0 ? INTERRUPTIBLE : 0;
    uint64_t operation = below(8) == 0 ? below(64) : 0;
    g->rax = (uint32_t)slot() | operation << 32 | flags;
}

/* One of each kind of open file. */
static void open_all(void) {
    int p[2], flags = O_CREAT | O_RDWR | O_NONBLOCK;
    char name[64];
    snprintf(name, sizeof name, "/tmp/foe/m-%d", getpid() % 64);
    int file = open(name, flags, 0600);
    ftruncate(file, 65536);
    open("/tmp/foe", O_RDONLY);
    open("/", O_RDONLY);
    open("/run", O_PATH);
    open("/dev/shm/foe", flags, 0600);
    pipe2(p, O_NONBLOCK);
    int event = eventfd(1, EFD_NONBLOCK), set = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN};
    epoll_ctl(set, EPOLL_CTL_ADD, p[0], &e);
    epoll_ctl(set, EPOLL_CTL_ADD, event, &e);
    timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    sigset_t some;
    sigemptyset(&some), sigaddset(&some, SIGUSR1);
    signalfd(-1, &some, SFD_NONBLOCK);
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p);
    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, p);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path + 1, 32, "foe-%d", getpid());
    bind(listener, (struct sockaddr *)&at, sizeof at);
    listen(listener, 4);
    connect(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), (struct sockaddr *)&at, sizeof at);
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof there;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    bind(listener, (struct sockaddr *)&there, sizeof there);
    listen(listener, 4);
    getsockname(listener, (struct sockaddr *)&there, &length);
    connect(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), (struct sockaddr *)&there, sizeof there);
    accept(listener, NULL, NULL);
    connect(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), (struct sockaddr *)&there, sizeof there);
    socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    memfd_create("foe", 0);
    mkfifo("/tmp/foe/fifo", 0600);
    open("/tmp/foe/fifo", O_RDWR | O_NONBLOCK);
    open("/dev/null", O_RDWR), open("/dev/zero", O_RDWR), open("/dev/urandom", O_RDONLY);
    open("/proc/self/status", O_RDONLY), open("/proc", O_RDONLY), open("/sys", O_RDONLY), open("/dev", O_RDONLY);
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    grantpt(master), unlockpt(master);
    char *slave = ptsname(master);
    if (slave != NULL) {
        open(slave, O_RDWR | O_NOCTTY | O_NONBLOCK);
    }
    mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int queue = msgget(77, IPC_CREAT | 0600), semaphores = semget(77, 4, IPC_CREAT | 0600);
    struct letter letter = {1, {0}};
    msgsnd(queue, &letter, sizeof letter.text, IPC_NOWAIT);
    struct sembuf up = {1, 1, SEM_UNDO | IPC_NOWAIT};
    semop(semaphores, &up, 1);
    shmat(shmget(77, 8192, IPC_CREAT | 0600), NULL, 0);
    struct mq_attr few = {.mq_maxmsg = 4, .mq_msgsize = 64};
    mq_open("/foe", O_CREAT | O_RDWR | O_NONBLOCK, 0600, &few);
    static const char *const files[] = {"", "/cgroup.procs", "/cgroup.subtree_control", "/pids.max", "/memory.current", "/../victim", "/../cgroup.procs"};
    for (unsigned i = 0; i < sizeof files / sizeof *files; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/foe%s", groups, files[i]);
        if (open(path, O_RDWR) < 0) {
            open(path, O_RDONLY);
        }
    }
    top_slot = SLOT_FIRST + 78;
}

static int reads_secret(const void *from, size_t bytes) {
    const unsigned char *at = from;
    for (size_t i = 0; i + 8 <= bytes; i++) {
        uint64_t word;
        memcpy(&word, at + i, 8);
        if ((word ^ mask) == secret[0] || (word ^ mask) == secret[1]) {
            return 1;
        }
    }
    return 0;
}

static void attack(int place, uint64_t seed, uint64_t victim, uint64_t messages) {
    static const int dangerous[] = {SIGALRM, SIGUSR1, SIGUSR2, SIGPIPE, SIGHUP, SIGINT, SIGTERM, SIGCHLD, SIGTTOU, SIGTTIN};
    traverse *go = find_gate();
    if (go == NULL) {
        shared->ended_for = NOT_BEGUN;
        _exit(1);
    }
    for (unsigned i = 0; i < sizeof dangerous / sizeof *dangerous; i++) {
        signal(dangerous[i], SIG_IGN);
    }
    /* Nothing of the victim's is inherited. */
    int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, 0), dup2(nothing, 1), dup2(nothing, 2);
    syscall(SYS_close_range, 3, ~0U, 0);
    munmap((void *)own.words, 4096), shmdt(own.attached);
    ids[0] = own.queue, ids[1] = own.semaphores, ids[2] = own.segment, ids[3] = 77;
    if (own.grouped && seed % 4 < 2) {
        write_text("foe/cgroup.procs", "0");
    }
    secret[0] ^= mask, secret[1] ^= mask;
    setgid(FOE), setuid(FOE);
    chdir("/tmp/foe");
    if (getuid() != FOE) {
        shared->ended_for = NOT_BEGUN;
        _exit(1);
    }
    state = seed;
    pids[0] = getpid(), pids[1] = victim, pids[2] = 1, pids[3] = getppid();
    pids[4] = shared->attackers[below(MOST)], pids[5] = shared->attackers[below(MOST)];
    if (seed % 16 < 6) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    }
    room = mmap(NULL, ROOM + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(room + ROOM, 4096);
    constant = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    absent = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    open_all();
    struct gate g;
    /* Who is no user of privilege has no portal to the log, neither to write nor to read it. */
    for (uint64_t operation = 1; operation <= 2; operation++) {
        struct gate log = {.rax = SLOT_LOG | operation << 32, .words = {(uint64_t)(uintptr_t)room, 1, 0}};
        go(&log);
        if (log.rax == 0) {
            shared->ended_for = HAS_LOG;
            _exit(1);
        }
    }
    for (uint64_t i = 0; i < messages; i++) {
        struct gate until = {.rax = SLOT_CURRENT | (uint64_t)CURRENT_DEADLINE << 32, .words = {now_ns() + 2000000}};
        make(&g);
        struct gate sent = g;
        shared->last[place] = g;
        go(&until);
        go(&g);
        shared->sent[place]++;
        if (reads_secret(&g, sizeof g) || (i % 8 == 0 && reads_secret(room, ROOM))) {
            shared->leaks++;
            shared->leaked_by = seed;
            memcpy((void *)shared->leaked_message, &sent, sizeof shared->leaked_message);
        }
    }
    _exit(0);
}

/* The victim */


static void count_signal(int signal) { own.signals = signal; }

static int must(const char *what, int result) {
    if (result < 0 && !wrong) {
        say("victim: %s: %s\n", what, strerror(errno));
    }
    return result;
}

static void read_mounts(char *to) {
    int fd = must("open mounts", open("/proc/self/mounts", O_RDONLY));
    memset(to, 0, sizeof own.mounts);
    must("read mounts", read(fd, to, sizeof own.mounts - 1));
    close(fd);
}

static void prepare(void) {
    static char content[4096];
    char path[64];
    getentropy(secret, sizeof secret);
    mkdir(home, 0700);
    mkdir("/tmp/foe", 0777), chmod("/tmp/foe", 0777);
    snprintf(path, sizeof path, "%s/secret", home);
    for (int i = 0; i < 4096; i += 16) {
        memcpy(content + i, secret, 16);
    }
    own.file = must("open", open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));
    must("write", write(own.file, content, sizeof content));
    memset(content, 0, sizeof content);
    snprintf(path, sizeof path, "%s/fifo", home);
    unlink(path);
    must("mkfifo", mkfifo(path, 0600));
    own.fifo = must("open FIFO", open(path, O_RDWR | O_NONBLOCK));
    must("pipe", pipe2(own.pipe, O_NONBLOCK));
    must("write to pipe", write(own.pipe[1], secret, 16));
    own.master = must("terminal", posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK));
    grantpt(own.master), unlockpt(own.master);
    chmod(ptsname(own.master), 0600);
    own.slave = must("its other side", open(ptsname(own.master), O_RDWR | O_NOCTTY | O_NONBLOCK));
    tcgetattr(own.slave, &own.terminal);
    for (int s = 1; s < 32; s++) {
        if (s != SIGKILL && s != SIGSTOP && s != SIGCHLD) {
            signal(s, count_signal);
        }
    }
    own.words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    own.waiter = must("fork", fork());
    if (own.waiter == 0) {
        for (;;) {
            if (syscall(SYS_futex, own.words, FUTEX_WAIT, 0, NULL, NULL, 0) == 0) {
                own.words[1]++;
            }
        }
    }
    own.holder = must("fork", fork());
    if (own.holder == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
        fcntl(own.file, F_SETLK, &lock);
        for (;;) {
            pause();
        }
    }
    struct letter letter = {1, {secret[0], secret[1]}};
    own.queue = must("msgget", msgget(78, IPC_CREAT | 0600));
    must("msgsnd", msgsnd(own.queue, &letter, sizeof letter.text, IPC_NOWAIT));
    own.semaphores = must("semget", semget(78, 2, IPC_CREAT | 0600));
    must("SETVAL", semctl(own.semaphores, 1, SETVAL, 3));
    own.segment = must("shmget", shmget(78, 4096, IPC_CREAT | 0600));
    own.attached = shmat(own.segment, NULL, 0);
    memcpy(own.attached, secret, sizeof secret);
    struct mq_attr few = {.mq_maxmsg = 4, .mq_msgsize = 16};
    own.posix = must("mq_open", mq_open("/victim", O_CREAT | O_RDWR | O_NONBLOCK, 0600, &few));
    must("mq_send", mq_send(own.posix, (char *)secret, sizeof secret, 1));
    own.grouped = mount("cgroup2", groups, "cgroup2", 0, NULL) == 0;
    if (own.grouped) {
        snprintf(path, sizeof path, "%s/victim", groups), must("mkdir victim", mkdir(path, 0755));
        snprintf(path, sizeof path, "%s/foe", groups), must("mkdir foe", mkdir(path, 0755)), chown(path, FOE, FOE);
        must("controllers", write_text("cgroup.subtree_control", "+memory +pids"));
        must("memory.max", write_text("victim/memory.max", "16777216"));
        snprintf(path, sizeof path, "%s/foe/cgroup.procs", groups), chown(path, FOE, FOE);
        snprintf(path, sizeof path, "%d", own.holder), must("cgroup.procs", write_text("victim/cgroup.procs", path));
    } else {
        say("there is no cgroup2: %s\n", strerror(errno));
    }
    rest(100);
    fstat(own.file, &own.status), stat(home, &own.folder);
    uname(&own.system);
    read_mounts(own.mounts);
}

static void look(unsigned round) {
    char content[4096], mounts[sizeof own.mounts];
    struct stat status, folder;
    must("fstat", fstat(own.file, &status)), must("stat", stat(home, &folder));
    if (status.st_mode != own.status.st_mode || status.st_uid != own.status.st_uid || status.st_gid != own.status.st_gid || status.st_size != own.status.st_size ||
        status.st_nlink != own.status.st_nlink || status.st_mtim.tv_nsec != own.status.st_mtim.tv_nsec || status.st_ctim.tv_nsec != own.status.st_ctim.tv_nsec) {
        say("victim: its file's status is another\n");
    }
    if (folder.st_mode != own.folder.st_mode || folder.st_nlink != own.folder.st_nlink || folder.st_mtim.tv_nsec != own.folder.st_mtim.tv_nsec) {
        say("victim: its folder is another\n");
    }
    if (must("pread", pread(own.file, content, sizeof content, 0)) != sizeof content) {
        say("victim: its file is shorter\n");
    }
    for (int i = 0; i < 4096; i += 16) {
        if (memcmp(content + i, secret, 16) != 0) {
            say("victim: its file has other bytes at %d\n", i);
            break;
        }
    }
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    must("F_GETLK", fcntl(own.file, F_GETLK, &lock));
    if (lock.l_type != F_WRLCK || lock.l_pid != own.holder || lock.l_start != 0 || lock.l_len != 10) {
        say("victim: its lock is another: type %d, process %d, %ld bytes from %ld\n", lock.l_type, lock.l_pid, (long)lock.l_len, (long)lock.l_start);
    }
    int pending = read(own.fifo, content, 16);
    if (pending != -1 || errno != EAGAIN) {
        say("victim: somebody wrote into its FIFO\n");
    }
    must("write to FIFO", write(own.fifo, secret, 16));
    if (must("read from FIFO", read(own.fifo, content, 32)) != 16 || memcmp(content, secret, 16) != 0) {
        say("victim: its FIFO has other bytes\n");
    }
    if (must("read from pipe", read(own.pipe[0], content, 32)) != 16 || memcmp(content, secret, 16) != 0) {
        say("victim: its pipe has other bytes\n");
    }
    must("write to pipe", write(own.pipe[1], secret, 16));
    if (own.words[0] != 0 || own.words[1] != 0) {
        say("victim: somebody woke who waits in its memory\n");
    }
    struct termios terminal;
    must("tcgetattr", tcgetattr(own.slave, &terminal));
    if (memcmp(&terminal, &own.terminal, sizeof terminal) != 0) {
        say("victim: its terminal has other settings\n");
    }
    if (read(own.slave, content, 16) != -1 || errno != EAGAIN || read(own.master, content, 16) != -1 || errno != EAGAIN) {
        say("victim: somebody typed at its terminal\n");
    }
    struct letter letter = {0};
    struct msqid_ds queue;
    must("IPC_STAT", msgctl(own.queue, IPC_STAT, &queue));
    if (queue.msg_qnum != 1 || queue.msg_perm.uid != 0 || (queue.msg_perm.mode & 0777) != 0600) {
        say("victim: its queue is another\n");
    }
    if (must("msgrcv", msgrcv(own.queue, &letter, sizeof letter.text, 0, IPC_NOWAIT)) != 16 || memcmp(letter.text, secret, 16) != 0) {
        say("victim: its queue has another message\n");
    }
    must("msgsnd", msgsnd(own.queue, &letter, sizeof letter.text, IPC_NOWAIT));
    if (must("GETVAL", semctl(own.semaphores, 1, GETVAL)) != 3 || semctl(own.semaphores, 0, GETVAL) != 0) {
        say("victim: its semaphores have other values\n");
    }
    struct shmid_ds segment;
    must("shmctl", shmctl(own.segment, IPC_STAT, &segment));
    if (memcmp(own.attached, secret, 16) != 0 || segment.shm_segsz != 4096 || segment.shm_perm.uid != 0 || segment.shm_nattch < 1) {
        say("victim: its segment is another\n");
    }
    if (must("mq_receive", mq_receive(own.posix, content, sizeof content, NULL)) != 16 || memcmp(content, secret, 16) != 0 || mq_receive(own.posix, content, sizeof content, NULL) != -1) {
        say("victim: its POSIX queue has other messages\n");
    }
    must("mq_send", mq_send(own.posix, (char *)secret, 16, 1));
    if (own.signals != 0) {
        say("victim: signal %d came\n", own.signals);
    }
    if (kill(own.waiter, 0) != 0 || kill(own.holder, 0) != 0) {
        say("victim: a process of its is gone\n");
    }
    if (round % 16 == 0 && own.grouped) {
        char text[64], expected[16];
        read_text("victim/memory.max", text, sizeof text);
        if (strcmp(text, "16777216\n") != 0) {
            say("victim: its group has another limit: %s\n", text);
        }
        snprintf(expected, sizeof expected, "%d\n", own.holder);
        read_text("victim/cgroup.procs", text, sizeof text);
        if (strcmp(text, expected) != 0) {
            say("victim: its group has other processes: %s\n", text);
        }
        read_text("cgroup.subtree_control", text, sizeof text);
        if (strcmp(text, "memory pids\n") != 0) {
            say("victim: groups have other controllers: %s\n", text);
        }
    }
    if (round % 16 == 0) {
        struct utsname system;
        uname(&system);
        read_mounts(mounts);
        if (memcmp(&system, &own.system, sizeof system) != 0 || strcmp(mounts, own.mounts) != 0) {
            say("victim: the system has another name or other mounts\n");
        }
        struct rlimit files;
        getrlimit(RLIMIT_NOFILE, &files);
        if (getpriority(PRIO_PROCESS, own.holder) != 0 || sched_getscheduler(own.holder) != SCHED_OTHER || files.rlim_cur < 64) {
            say("victim: its settings are others\n");
        }
        pid_t child = must("fork", fork());
        if (child == 0) {
            _exit(7);
        }
        int ended = 0;
        if (must("waitpid", waitpid(child, &ended, 0)) == child && (!WIFEXITED(ended) || WEXITSTATUS(ended) != 7)) {
            say("victim: its child ended with %x\n", ended);
        }
    }
}

static pid_t begin(int place, uint64_t seed, uint64_t victim) {
    pid_t child = fork();
    if (child == 0) {
        attack(place, seed, victim, EACH);
    }
    return child;
}

static uint64_t seed_of(uint64_t seed, uint64_t number) { return (seed * 0x9e3779b97f4a7c15ULL ^ (number + 1) * 0xbf58476d1ce4e5b9ULL) | 1; }

/* Begins attackers again and again, and ends who stands. */
static int keep_attacking(uint64_t seed, uint64_t count, int copies, int64_t only, uint64_t victim) {
    struct {
        pid_t pid;
        uint64_t seen;
        int64_t since;
    } attackers[MOST] = {{0}};
    uint64_t number = 0, sent = 0, stood = 0, killed = 0;
    state = seed_of(seed, ~0ULL);
    while (sent < count) {
        /* Attackers, and what they forked and left. */
        int status;
        for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
            for (int i = 0; i < copies; i++) {
                if (attackers[i].pid == ended) {
                    attackers[i].pid = 0;
                    if (shared->ended_for == NOT_BEGUN) {
                        say("an attacker cannot begin\n");
                        return 1;
                    }
                    if (shared->ended_for == HAS_LOG) {
                        say("an attacker has a portal to the log\n");
                        return 1;
                    }
                }
            }
        }
        sent = 0;
        for (int i = 0; i < copies; i++) {
            uint64_t now = shared->sent[i];
            sent += now;
            pid_t pid = attackers[i].pid;
            int64_t time = now_ns();
            if (pid > 0 && now == attackers[i].seen && time - attackers[i].since > 100000000) {
                stood++;
                kill(pid, SIGKILL);
                attackers[i].since = time;
            }
            /* In the middle of whatever it does. */
            if (pid > 0 && only < 0 && below(256) == 0) {
                killed++;
                kill(pid, SIGKILL);
            }
            if (now != attackers[i].seen) {
                attackers[i].seen = now, attackers[i].since = time;
            }
            if (pid <= 0) {
                if (only >= 0 && number > 0) {
                    return 0;
                }
                attackers[i].pid = shared->attackers[i] = begin(i, seed_of(seed, only >= 0 ? (uint64_t)only : number), victim);
                attackers[i].since = time;
                number++;
            }
        }
        rest(5);
    }
    fprintf(stderr, "%lu messages by %lu programs, %lu of which stood, and %lu were ended\n", (unsigned long)sent, (unsigned long)number, (unsigned long)stood,
            (unsigned long)killed);
    return 0;
}

static void kill_foes(void) {
    for (int i = 0; i < 3; i++) {
        pid_t killer = fork();
        if (killer == 0) {
            setgid(FOE), setuid(FOE);
            kill(-1, SIGKILL);
            _exit(0);
        }
        waitpid(killer, NULL, 0);
        rest(20);
    }
}

/* What they left of System V. */
static void remove_objects(void) {
    struct msqid_ds queue;
    struct semid_ds set;
    struct shmid_ds segment;
    for (int at = 0; at < 1024; at++) {
        int id = msgctl(at, MSG_STAT, &queue);
        if (id >= 0 && queue.msg_perm.cuid == FOE) {
            msgctl(id, IPC_RMID, NULL);
        }
        id = semctl(at, 0, SEM_STAT, &set);
        if (id >= 0 && set.sem_perm.cuid == FOE) {
            semctl(id, 0, IPC_RMID);
        }
        id = shmctl(at, SHM_STAT, &segment);
        if (id >= 0 && segment.shm_perm.cuid == FOE) {
            shmctl(id, IPC_RMID, NULL);
        }
    }
    msgctl(own.queue, IPC_RMID, NULL), semctl(own.semaphores, 0, IPC_RMID), shmdt(own.attached), shmctl(own.segment, IPC_RMID, NULL);
    mq_close(own.posix), mq_unlink("/victim"), mq_unlink("/foe");
}

/* What they left in folders that everybody may write into. */
static int remove_foes(const char *path, const struct stat *status, int kind, struct FTW *place) {
    if ((status->st_uid == FOE && place->level > 0) || kind == FTW_NS || strcmp(path, "/tmp/foe") == 0) {
        remove(path);
    }
    return 0;
}

static int remove_group(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status, (void)place;
    if (kind == FTW_DP && rmdir(path) != 0) {
        int why = errno;
        char name[64], members[64];
        snprintf(name, sizeof name, "%s/cgroup.procs", path + strlen(groups) + 1), read_text(name, members, sizeof members);
        fprintf(stderr, "the group %s stays (%s), with the processes: %s\n", path, strerror(why), members);
    }
    return 0;
}

/* Some server stood: with one of these. */
static void tell_last(void) {
    for (int i = 0; i < MOST; i++) {
        struct gate last = shared->last[i];
        if (last.rax != 0) {
            fprintf(stderr, "attacker %d: selector %lx, words", i, (unsigned long)last.rax);
            for (unsigned w = 0; w < sizeof last.words / sizeof *last.words; w++) {
                fprintf(stderr, " %lx", (unsigned long)last.words[w]);
            }
            fprintf(stderr, "\n");
        }
    }
}

/* A group and what the attackers made in it. */
static void remove_groups(const char *path) { nftw(path, remove_group, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT); }

int main(int argc, char **argv) {
    if (argc < 5 || atoi(argv[3]) < 1 || atoi(argv[3]) > MOST || atoll(argv[4]) < 1) {
        fprintf(stderr, "usage: messages SEED COUNT COPIES PATIENCE_US [ONLY]\n");
        return 2;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t victim = getpid();
    prepare();
    pid_t keeper = fork();
    if (keeper == 0) {
        for (int s = 1; s < 32; s++) {
            signal(s, SIG_DFL);
        }
        int64_t only = argc > 5 ? atoll(argv[5]) : -1;
        _exit(keep_attacking(strtoull(argv[1], NULL, 0), strtoull(argv[2], NULL, 0), atoi(argv[3]), only, victim));
    }
    struct sched_param important = {.sched_priority = 10};
    sched_setscheduler(0, SCHED_FIFO, &important);
    unsigned rounds = 0;
    int64_t latest = 0;
    int ended = 0, status = 0;
    while (!ended && !wrong) {
        int64_t begun = now_ns();
        look(rounds++);
        int64_t looked = now_ns();
        if ((looked - begun) / 1000 > atoll(argv[4]) / 2) {
            tell_last();
        }
        rest(ROUND_MS);
        int64_t ended_at = now_ns(), late = (ended_at - begun) / 1000 - ROUND_MS * 1000;
        if (late > atoll(argv[4])) {
            uint64_t sent = 0;
            for (int i = 0; i < MOST; i++) {
                sent += shared->sent[i];
            }
            fprintf(stderr, "round %u: %ld us for its work, %ld us late to wake, after %lu messages\n", rounds, (long)(looked - begun) / 1000,
                    (long)(ended_at - looked) / 1000 - ROUND_MS * 1000, (unsigned long)sent);
        }
        latest = late > latest ? late : latest;
        ended = waitpid(keeper, &status, WNOHANG) == keeper;
    }
    if (!ended) {
        kill(keeper, SIGKILL);
        waitpid(keeper, NULL, 0);
    } else if (status != 0) {
        say("the attackers' keeper ended with %x\n", status);
    }
    kill_foes();
    look(0);
    if (latest > atoll(argv[4])) {
        say("victim: a round was %ld us late\n", (long)latest);
    }
    if (shared->leaks != 0) {
        say("%lu messages read what the victim keeps, the last by seed %lx: %lx %lx %lx %lx\n", (unsigned long)shared->leaks, (unsigned long)shared->leaked_by,
            (unsigned long)shared->leaked_message[0], (unsigned long)shared->leaked_message[1], (unsigned long)shared->leaked_message[2], (unsigned long)shared->leaked_message[3]);
    }
    fprintf(stderr, "%u rounds, the latest by %ld us\n", rounds, (long)latest);
    kill(own.waiter, SIGKILL), kill(own.holder, SIGKILL);
    waitpid(own.waiter, NULL, 0), waitpid(own.holder, NULL, 0);
    remove_objects();
    char path[64];
    if (own.grouped) {
        snprintf(path, sizeof path, "%s/victim", groups), remove_groups(path);
        snprintf(path, sizeof path, "%s/foe", groups), remove_groups(path);
        /* What the dead had open is closed a bit at a time. */
        int unmounted = -1;
        for (int i = 0; i < 200 && (unmounted = umount(groups)) != 0 && errno == EBUSY; i++) {
            rest(20);
        }
        if (unmounted != 0) {
            fprintf(stderr, "the groups cannot be unmounted: %s\n", strerror(errno));
        }
    }
    static const char *const folders[] = {"/tmp/foe", "/tmp", "/dev/shm", "/run"};
    for (unsigned i = 0; i < sizeof folders / sizeof *folders; i++) {
        nftw(folders[i], remove_foes, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    }
    snprintf(path, sizeof path, "%s/secret", home), unlink(path);
    snprintf(path, sizeof path, "%s/fifo", home), unlink(path);
    rmdir(home);
    if (!wrong) {
        printf("good\n");
    }
    return wrong;
}
