/* Asynchronous input and output (io_setup and its family): files, vectors, flags, the ring in memory, event counters, waiting for readiness, cancelling,
   all errors; contexts of children. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct block {
    uint64_t data;
    uint32_t key;
    uint32_t rw_flags;
    uint16_t command;
    int16_t priority;
    uint32_t fd;
    uint64_t buffer;
    uint64_t length;
    int64_t offset;
    uint64_t reserved;
    uint32_t flags;
    uint32_t counter;
};

struct event {
    uint64_t data;
    uint64_t block;
    int64_t result;
    int64_t second;
};

struct ring {
    unsigned id, nr, head, tail, magic, compat, incompat, header;
};

enum { PREAD, PWRITE, FSYNC, FDSYNC, POLL = 5, NOOP, PREADV, PWRITEV };
enum { RESFD = 1, IOPRIO = 2 };

static unsigned long context;

static long setup(unsigned count, unsigned long *id) { return syscall(SYS_io_setup, count, id); }
static long destroy(unsigned long id) { return syscall(SYS_io_destroy, id); }
static long submit(unsigned long id, long count, struct block **all) { return syscall(SYS_io_submit, id, count, all); }
static long cancel(unsigned long id, struct block *block, struct event *event) { return syscall(SYS_io_cancel, id, block, event); }
static long events(long least, long most, struct event *all, struct timespec *time) {
    return syscall(SYS_io_getevents, context, least, most, all, time);
}

static void say(const char *what, long result) {
    if (result < 0) {
        printf("%s: %s\n", what, strerror(errno));
    } else {
        printf("%s: %ld\n", what, result);
    }
}

static void show(const char *what, long count, const struct event *all) {
    say(what, count);
    for (long i = 0; i < count; i++) {
        printf("    data %llu result %lld second %lld\n", (unsigned long long)all[i].data, (long long)all[i].result, (long long)all[i].second);
    }
}

static struct block block(int command, int fd, const void *buffer, uint64_t length, int64_t offset) {
    static uint64_t data;
    return (struct block){.data = ++data, .command = command, .fd = fd, .buffer = (uintptr_t)buffer, .length = length, .offset = offset, .key = 77};
}

/* Submit one and show what comes of it. */
static void one(const char *what, struct block b) {
    struct block *all[] = {&b};
    struct event event;
    b.data = 1000;
    long given = submit(context, 1, all);
    say(what, given);
    if (given == 1) {
        struct timespec second = {1, 0};
        show("  events", events(1, 1, &event, &second), &event);
        if (b.key != 0 || event.block != (uintptr_t)&b) {
            puts("  key or block is wrong");
        }
    }
}

static void *later(void *argument) {
    usleep(30000);
    if (write(*(int *)argument, "x", 1) != 1) {
        puts("write failed");
    }
    return NULL;
}

static struct block late;

static void *submits(void *argument) {
    struct block *all[] = {&late};
    usleep(30000);
    say("submit beside a waiting thread", submit(context, 1, all));
    return argument;
}

static void handler(int signal) { (void)signal; }

static void files(int fd) {
    static char data[10000], back[10000];
    for (unsigned i = 0; i < sizeof data; i++) {
        data[i] = i * 7;
    }
    one("write", block(PWRITE, fd, data, sizeof data, 0));
    one("read", block(PREAD, fd, back, sizeof back, 100));
    printf("same: %d\n", memcmp(data + 100, back, sizeof data - 100) == 0);
    one("read nothing", block(PREAD, fd, back, 0, 0));
    one("read beyond the end", block(PREAD, fd, back, 10, 100000));
    struct iovec pieces[] = {{back, 3}, {back + 10, 0}, {back + 20, 5}};
    one("readv", block(PREADV, fd, pieces, 3, 1));
    printf("same: %d\n", memcmp(back, data + 1, 3) == 0 && memcmp(back + 20, data + 4, 5) == 0);
    one("writev", block(PWRITEV, fd, pieces, 3, 20000));
    one("vector of none", block(PREADV, fd, pieces, 0, 1));
    one("vector of too many", block(PREADV, fd, pieces, 1025, 1));
    one("bad vector", block(PREADV, fd, (void *)8, 2, 1));
    printf("size %ld, position %ld\n", (long)lseek(fd, 0, SEEK_END), (long)lseek(fd, 5, SEEK_SET));
    one("fsync", block(FSYNC, fd, NULL, 0, 0));
    one("fdsync", block(FDSYNC, fd, NULL, 0, 0));
    one("fsync with a length", block(FSYNC, fd, NULL, 1, 0));
    one("noop", block(NOOP, fd, back, 1, 0));
    one("command 9", block(9, fd, back, 1, 0));
    one("command 4", block(4, fd, back, 1, 0));
    one("negative offset", block(PREAD, fd, back, 1, -1));
    one("negative length", block(PREAD, fd, back, -1, 0));
    one("bad memory", block(PREAD, fd, (void *)8, 10, 0));
    one("bad memory to write", block(PWRITE, fd, (void *)8, 10, 0));
    one("wild memory", block(PREAD, fd, (void *)-4096, 10, 0));
    one("bad descriptor", block(PREAD, -1, back, 10, 0));
    one("closed descriptor", block(PREAD, 999, back, 10, 0));
    struct block b = block(PREAD, fd, back, 10, 0);
    b.reserved = 1;
    one("reserved word", b);
    b.reserved = 0;
    b.rw_flags = 1 << 20;
    one("flags that are not known", b);
    b.rw_flags = 1;
    one("RWF_HIPRI", b);
    b.rw_flags = 0;
    b.flags = IOPRIO;
    b.priority = 2 << 13 | 4;
    one("best effort", b);
    b.priority = 2 << 13 | 8;
    one("level 8", b);
    b.priority = 5 << 13;
    one("class 5", b);
    b.flags = 1 << 10;
    one("flag 10", b);
    b = block(PWRITE, fd, "tail", 4, 0);
    b.rw_flags = 16;
    one("append", b);
    b.rw_flags = 2;
    one("dsync", b);
    printf("size %ld\n", (long)lseek(fd, 0, SEEK_END));
    int directory = open("/", O_RDONLY), only = open("/dev/null", O_WRONLY), path = open("/dev/null", O_PATH);
    one("directory", block(PREAD, directory, back, 10, 0));
    one("read of a file for writing", block(PREAD, only, back, 10, 0));
    one("write of a directory", block(PWRITE, directory, back, 10, 0));
    one("path only", block(PREAD, path, back, 10, 0));
    close(directory);
    close(only);
    close(path);
}

static void counters(int fd) {
    int counter = eventfd(0, EFD_NONBLOCK);
    char back[16];
    struct block b = block(PREAD, fd, back, 10, 0), c = b;
    b.flags = RESFD;
    b.counter = counter;
    one("with a counter", b);
    one("again", b);
    uint64_t value = 0;
    say("counter read", read(counter, &value, 8));
    printf("counter %llu\n", (unsigned long long)value);
    b.counter = fd;
    one("a file as counter", b);
    b.counter = -1;
    one("no counter", b);
    c = block(PREAD, counter, back, 8, 0);
    value = 5;
    say("counter write", write(counter, &value, 8));
    one("read a counter", c);
    c.command = PWRITE;
    one("write a counter", c);
    close(counter);
}

static void readiness(void) {
    int p[2];
    struct event all[4];
    struct timespec none = {0}, some = {0, 20000000};
    if (pipe(p) < 0) {
        return;
    }
    struct block b = block(POLL, p[0], (void *)POLLIN, 0, 0), *list[] = {&b, &b};
    b.data = 1;
    one("poll for writing", block(POLL, p[1], (void *)(POLLOUT | POLLIN), 0, 0));
    one("poll with a length", block(POLL, p[1], (void *)POLLOUT, 1, 0));
    one("poll with large bits", block(POLL, p[1], (void *)0x10000, 0, 0));
    say("poll", submit(context, 1, list));
    show("nothing yet", events(0, 4, all, &none), all);
    show("nothing yet", events(1, 4, all, &some), all);
    if (write(p[1], "x", 1) != 1) {
        return;
    }
    show("now", events(1, 4, all, NULL), all);
    show("once only", events(0, 4, all, &none), all);
    if (read(p[0], all, 1) != 1) {
        return;
    }
    say("poll", submit(context, 1, list));
    say("cancel", cancel(context, &b, all));
    show("of it", events(1, 4, all, NULL), all);
    say("cancel again", cancel(context, &b, all));
    b.key = 5;
    say("cancel with another key", cancel(context, &b, all));
    say("cancel nothing", cancel(context, NULL, all));
    say("cancel in no context", cancel(0, list[0], all));
    b.key = 0;
    say("cancel in no context", cancel(0, list[0], all));
    /* From another thread. */
    pthread_t thread;
    say("poll", submit(context, 1, list));
    pthread_create(&thread, NULL, later, &p[1]);
    show("from a thread", events(1, 4, all, NULL), all);
    pthread_join(thread, NULL);
    close(p[1]);
    say("poll", submit(context, 1, list));
    if (read(p[0], all, 1) != 1) {
        return;
    }
    show("the end", events(1, 4, all, NULL), all);
    say("poll", submit(context, 1, list));
    show("the end", events(1, 4, all, NULL), all);
    close(p[0]);
    /* A descriptor that is closed meanwhile. */
    if (pipe(p) < 0) {
        return;
    }
    b = block(POLL, p[0], (void *)POLLIN, 0, 0);
    b.data = 2;
    say("poll", submit(context, 1, list));
    close(p[0]);
    show("closed", events(0, 4, all, &none), all);
    if (write(p[1], "x", 1) != 1) {
        puts("the pipe has no reader");
    }
    show("closed, and written", events(0, 4, all, &some), all);
    close(p[1]);
}

static void streams(void) {
    int p[2], s[2];
    char back[16] = "";
    if (pipe2(p, O_NONBLOCK) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, s) < 0) {
        return;
    }
    one("empty pipe", block(PREAD, p[0], back, 10, 0));
    one("fsync of a pipe", block(FSYNC, p[0], NULL, 0, 0));
    one("write a pipe", block(PWRITE, p[1], "hello", 5, 0));
    one("read a pipe", block(PREAD, p[0], back, 10, 7));
    printf("%s\n", back);
    one("write a socket", block(PWRITE, s[0], "other", 5, 0));
    one("read a socket", block(PREAD, s[1], back, 10, 0));
    printf("%s\n", back);
    signal(SIGPIPE, SIG_IGN);
    close(p[0]);
    one("broken pipe", block(PWRITE, p[1], "hello", 5, 0));
    close(p[1]);
    close(s[0]);
    close(s[1]);
}

static void waiting(int fd) {
    struct event all[4];
    char back[4];
    struct timespec some = {0, 10000000};
    show("more than most", events(5, 4, all, NULL), all);
    show("negative", events(-1, 4, all, NULL), all);
    show("none", events(0, 0, all, NULL), all);
    show("bad time", events(1, 4, all, (void *)8), all);
    show("a while", events(1, 4, all, &some), all);
    struct block b = block(PREAD, fd, back, 4, 0), c = b, *list[] = {&b, &c, (void *)8, &c};
    b.data = 1, c.data = 2;
    say("two of four", submit(context, 4, list));
    show("into bad memory", events(1, 4, (void *)8, NULL), all);
    show("one", events(1, 1, all, NULL), all);
    show("the other", events(1, 4, all, &some), all);
    say("bad list", submit(context, 1, (void *)8));
    say("bad block", submit(context, 1, list + 2));
    say("none", submit(context, 0, NULL));
    say("negative", submit(context, -1, list));
    say("no context", submit(0, 1, list));
    say("a wild context", submit(-1, 1, list));
    struct block bad = block(PREAD, -1, back, 4, 0), *mixed[] = {&b, &bad, &c};
    say("the second is bad", submit(context, 3, mixed));
    show("the first", events(1, 4, all, &some), all);
    /* Signals. */
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    ualarm(20000, 0);
    show("interrupted", events(1, 4, all, NULL), all);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    struct {
        sigset_t *set;
        size_t size;
    } with = {&set, 8}, wrong = {&set, 7};
    some.tv_nsec = 60000000;
    ualarm(20000, 0);
    show("masked", syscall(SYS_io_pgetevents, context, 1, 4, all, &some, &with), all);
    sigemptyset(&set);
    ualarm(20000, 0);
    show("not masked", syscall(SYS_io_pgetevents, context, 1, 4, all, NULL, &with), all);
    show("size of the mask", syscall(SYS_io_pgetevents, context, 1, 4, all, &some, &wrong), all);
    show("bad mask", syscall(SYS_io_pgetevents, context, 1, 4, all, &some, (void *)8), all);
    with.set = NULL;
    some.tv_nsec = 1;
    show("no mask", syscall(SYS_io_pgetevents, context, 1, 4, all, &some, &with), all);
    pthread_t thread;
    late = block(PREAD, fd, back, 4, 0);
    late.data = 3;
    pthread_create(&thread, NULL, submits, NULL);
    long count = events(1, 4, all, NULL);
    pthread_join(thread, NULL);
    show("from another thread", count, all);
}

static void ring(int fd) {
    const struct ring *ring = (void *)context;
    static char back[4];
    struct event all[200];
    printf("nr %u, magic %x, compat %u, incompat %u, header %u, empty %d\n", ring->nr, ring->magic, ring->compat, ring->incompat, ring->header,
           ring->head == ring->tail);
    struct block b = block(PREAD, fd, back, 4, 0), *list[200];
    for (int i = 0; i < 200; i++) {
        list[i] = &b;
    }
    b.data = 9;
    unsigned tail = ring->tail;
    say("three", submit(context, 3, list));
    printf("tail moved by %u\n", (ring->tail + ring->nr - tail) % ring->nr);
    const struct event *inside = (void *)(ring + 1);
    printf("inside: data %llu, result %lld\n", (unsigned long long)inside[tail].data, (long long)inside[tail].result);
    /* Taken by the program itself. */
    ((struct ring *)context)->head = (ring->head + 1) % ring->nr;
    show("the others", events(0, 9, all, NULL), all);
    say("full", submit(context, 200, list));
    say("over", submit(context, 1, list));
    say("all", events(1, 200, all, NULL));
    for (int i = 0; i < 300; i++) {
        if (submit(context, 1, list) != 1 || events(1, 1, all, NULL) != 1) {
            puts("a round failed");
        }
    }
}

int main(void) {
    setbuf(stdout, NULL);
    unsigned long other = 0;
    say("none", setup(0, &other));
    say("no place", setup(1, NULL));
    say("a bad place", setup(1, (void *)8));
    other = 1;
    say("a place in use", setup(1, &other));
    other = 0;
    say("too many", setup(65537, &other));
    say("far too many", setup(-1, &other));
    say("half of that", setup(0x80000000, &other));
    say("destroy none", destroy(0));
    say("destroy a wild one", destroy(-1));
    say("many", setup(60000, &other));
    say("end of many", destroy(other));
    say("again", destroy(other));
    say("setup", setup(8, &context));
    char name[] = "/tmp/aio-XXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    files(fd);
    counters(fd);
    readiness();
    streams();
    waiting(fd);
    ring(fd);
    /* A child has none. */
    int status = 0;
    fflush(stdout);
    if (fork() == 0) {
        struct timespec none = {0};
        struct event event;
        say("of the parent's", events(0, 1, &event, &none));
        say("destroy it", destroy(context));
        context = 0;
        say("its own", setup(8, &context));
        one("read", block(PREAD, fd, &event, 4, 0));
        _exit(7);
    }
    wait(&status);
    printf("child %d\n", WEXITSTATUS(status));
    one("still there", block(PREAD, fd, &status, 4, 0));
    say("destroy", destroy(context));
    say("destroy again", destroy(context));
    FILE *limit = fopen("/proc/sys/fs/aio-max-nr", "r");
    int most = 0;
    say("limit", limit != NULL ? fscanf(limit, "%d", &most) : -1);
    printf("%d\n", most);
    return 0;
}
