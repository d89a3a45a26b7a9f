/* What /proc tells of a process's memory (smaps, smaps_rollup) and keeps for its core file (coredump_filter), the mask of modes and the cores in status,
 * and what fdinfo tells of epoll sets, timers and signal descriptors. */
// cairn-test: time=40
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 16

static char text[1 << 20];

static const char *load(const char *path) {
    int file = open(path, O_RDONLY);
    size_t length = 0;
    ssize_t count;
    if (file < 0) {
        printf("%s: %s\n", path, strerror(errno));
        exit(1);
    }
    while ((count = read(file, text + length, sizeof text - 1 - length)) > 0)
        length += count;
    text[length] = 0;
    close(file);
    return text;
}

/* Write to a file; say what came of it. */
static void put(const char *path, const char *value) {
    int file = open(path, O_WRONLY);
    ssize_t count = write(file, value, strlen(value));
    printf("%s \"%s\": %zd %s\n", path, value, count, count < 0 ? strerror(errno) : "");
    close(file);
}

/* The line with this label, from there on. */
static void line(const char *from, const char *label) {
    const char *at = from ? strstr(from, label) : NULL;
    if (!at)
        printf("no %s\n", label);
    else
        printf("%.*s\n", (int)strcspn(at, "\n"), at);
}

/* The flags of a mapping, without those that only some systems have, or that also say what the mapping was before (ac). */
static void flags(const char *from) {
    char all[200];
    const char *at = strstr(from, "VmFlags: ");
    snprintf(all, sizeof all, "%.*s", (int)strcspn(at, "\n"), at);
    for (char *word = strtok(all, " "); word; word = strtok(NULL, " "))
        if (strcmp(word, "sd") != 0 && strcmp(word, "ac") != 0)
            printf("%s ", word);
    printf("\n");
}

static void mapping(const char *what, const void *place) {
    char head[40];
    snprintf(head, sizeof head, "%lx-", (unsigned long)place);
    const char *at = strstr(load("/proc/self/smaps"), head);
    printf("%s:%.6s\n", what, at ? strchr(at, ' ') : " gone");
    const char *labels[] = {"\nSize:", "\nKernelPageSize:", "\nRss:", "\nPss:", "\nShared_Dirty:",
        "\nPrivate_Dirty:", "\nAnonymous:", "\nSwap:", "\nLocked:"};
    for (size_t i = 0; at && i < sizeof labels / sizeof *labels; i++)
        line(strstr(at, labels[i]) + 1, labels[i] + 1);
    if (at)
        flags(at);
}

/* Memory with nothing beside it that it could be one with. */
static char *room(int rights, int how) {
    char *place = mmap(NULL, (PAGES + 2) * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mmap(place + 4096, PAGES * 4096, rights, how | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
}

static void memory(void) {
    char *own = room(PROT_READ | PROT_WRITE, MAP_PRIVATE);
    char *shared = room(PROT_READ | PROT_WRITE, MAP_SHARED);
    char *locked = room(PROT_READ | PROT_WRITE, MAP_PRIVATE);
    mapping("untouched", own);
    memset(own, 1, PAGES * 4096);
    memset(shared, 1, PAGES * 4096);
    mlock(locked, PAGES * 4096);
    mapping("private", own);
    mapping("shared", shared);
    mapping("locked", locked);
    int step[2], back[2];
    char byte;
    if (pipe(step) || pipe(back))
        exit(1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        mapping("private, of two", own);
        /* (How many pages one write brings is the system's business.) */
        memset(own, 2, PAGES * 4096);
        mapping("private, of two, written", own);
        memset(shared, 2, PAGES * 4096);
        mapping("shared, of two", shared);
        fflush(stdout);
        if (write(back[1], "", 1) != 1 || read(step[0], &byte, 1) != 1)
            _exit(1);
        _exit(0);
    }
    if (read(back[0], &byte, 1) != 1)
        exit(1);
    mapping("the parent's", own);
    if (write(step[1], "", 1) != 1)
        exit(1);
    waitpid(child, NULL, 0);
    mapping("alone again", own);
    mprotect(own, PAGES * 4096, PROT_READ);
    madvise(own, PAGES * 4096, MADV_DONTFORK);
    mapping("read only, and not for children", own);
    /* All together. */
    unsigned long start, end, rss, anonymous;
    const char *all = load("/proc/self/smaps_rollup");
    int read = sscanf(all, "%lx-%lx ---p 00000000 00:00 0 %*[ ][rollup]", &start, &end);
    const char *at = strstr(all, "\nRss:");
    read += at ? sscanf(at, "\nRss: %lu kB", &rss) : 0;
    at = strstr(all, "\nAnonymous:");
    read += at ? sscanf(at, "\nAnonymous: %lu kB", &anonymous) : 0;
    printf("together: %d %d %d\n", read, start < end, rss >= anonymous && anonymous >= 2 * PAGES * 4);
    printf("%d %d %d\n", strstr(all, "\nPss_Anon:") != NULL, strstr(all, "\nPss_File:") != NULL,
        strstr(all, "\nPss_Shmem:") != NULL);
}

static void core(const char *filter) {
    static const char mark[] = "here-is-the-mark";
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    put("/proc/self/coredump_filter", filter);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        line(load("/proc/self/coredump_filter"), "0");
        fflush(stdout);
        char *own = room(PROT_READ | PROT_WRITE, MAP_PRIVATE);
        char *shared = room(PROT_READ | PROT_WRITE, MAP_SHARED);
        for (size_t i = 0; i < sizeof mark; i++) {
            own[i] = mark[i] ^ 0x20;
            shared[i] = mark[i] ^ 0x40;
        }
        setrlimit(RLIMIT_CORE, &limit);
        abort();
    }
    int status;
    waitpid(child, &status, 0);
    int found[2] = {0, 0};
    int file = open("core-of-filter", O_RDONLY);
    struct stat stat;
    fstat(file, &stat);
    char *bytes = mmap(NULL, stat.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    for (off_t i = 0; i + (off_t)sizeof mark <= stat.st_size; i += 4096)
        for (int kind = 0; kind < 2; kind++) {
            size_t same = 0;
            while (same < sizeof mark && bytes[i + same] == (mark[same] ^ (kind ? 0x40 : 0x20)))
                same++;
            found[kind] += same == sizeof mark;
        }
    printf("core %d: private %d, shared %d\n", WCOREDUMP(status) != 0, found[0], found[1]);
    munmap(bytes, stat.st_size);
    close(file);
    unlink("core-of-filter");
}

static void filters(void) {
    line(load("/proc/self/coredump_filter"), "0");
    put("/proc/self/coredump_filter", "x");
    put("/proc/self/coredump_filter", "-1");
    put("/proc/self/coredump_filter", "99999999999");
    put("/proc/self/coredump_filter", "0xffffffff\n");
    line(load("/proc/self/coredump_filter"), "0");
    put("/proc/self/coredump_filter", "017");
    line(load("/proc/self/coredump_filter"), "0");
    put("/proc/sys/kernel/core_pattern", "core-of-filter");
    core("0x33");
    core("0x1");
    core("0x2");
    core("0");
    put("/proc/sys/kernel/core_pattern", "core");
}

static void status(void) {
    cpu_set_t first;
    umask(027);
    line(load("/proc/self/status"), "Umask:");
    umask(0707);
    fflush(stdout);
    if (fork() == 0) {
        line(load("/proc/self/status"), "Umask:");
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    umask(022);
    line(load("/proc/self/status"), "Umask:");
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sched_setaffinity(0, sizeof first, &first);
    line(load("/proc/self/status"), "Cpus_allowed_list:");
    line(load("/proc/self/status"), "Mems_allowed_list:");
}

static const char *told(int file) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", file);
    return load(path);
}

static void descriptors(void) {
    int set = epoll_create1(0), ends[2];
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = 0x123456789abcdef0};
    struct stat stat;
    if (pipe(ends))
        exit(1);
    printf("%d\n", strstr(told(set), "tfd:") == NULL);
    epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
    event.events = EPOLLOUT | EPOLLONESHOT;
    event.data.u64 = 7;
    epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &event);
    fstat(ends[0], &stat);
    for (int i = 0; i < 2; i++) {
        char head[40], tail[80];
        snprintf(head, sizeof head, "tfd: %8d events: ", ends[i]);
        snprintf(tail, sizeof tail, " ino:%lx sdev:", (unsigned long)stat.st_ino);
        const char *at = strstr(told(set), head);
        if (!at) {
            printf("no %s in %s\n", head, text);
            continue;
        }
        printf("%.*s\n", (int)(strstr(at, " ino:") - at - 14), at + 14);
        printf("%d\n", strncmp(strstr(at, " ino:"), tail, strlen(tail)) == 0);
    }
    epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL);
    epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL);
    printf("%d\n", strstr(told(set), "tfd:") == NULL);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGUSR1);
    sigaddset(&mask, 64);
    line(told(signalfd(-1, &mask, 0)), "sigmask:");
    for (int i = 0; i < 2; i++) {
        int timer = timerfd_create(i ? CLOCK_BOOTTIME : CLOCK_REALTIME, 0);
        struct itimerspec times = {{5, 250}, {i ? 0 : 4000000000, 0}};
        timerfd_settime(timer, i ? 0 : TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &times, NULL);
        const char *at = told(timer);
        line(at, "clockid:");
        line(at, "ticks:");
        line(at, "settime flags:");
        if (i)
            line(at, "it_value:");
        line(at, "it_interval:");
    }
}

int main(void) {
    memory();
    filters();
    status();
    descriptors();
    return 0;
}
