/* Texts of /proc about a process and its open files: thread-self, fdinfo of eventfds and inotify, mnt_id, timerslack_ns, an empty name, blocked signals, what is the same for all. */
// cairn-test: time=30
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *result(long value) {
    return value >= 0 ? "ok" : strerror(errno);
}

static void end(int status) {
    fflush(stdout);
    _exit(status);
}

static char text[65536];

static const char *text_of(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    for (ssize_t got; file >= 0 && length < sizeof text - 1 && (got = read(file, text + length, sizeof text - 1 - length)) > 0;)
        length += got;
    text[length] = 0;
    if (file < 0)
        snprintf(text, sizeof text, "(%s)\n", strerror(errno));
    else
        close(file);
    return text;
}

/* The line of a text that begins so. */
static const char *line_of(const char *path, const char *begins) {
    static char line[512];
    snprintf(line, sizeof line, "none");
    for (const char *at = text_of(path); *at; at = strchr(at, '\n') + 1) {
        const char *stop = strchr(at, '\n');
        if (!stop)
            break;
        if (!strncmp(at, begins, strlen(begins))) {
            snprintf(line, sizeof line, "%.*s", (int)(stop - at), at);
            break;
        }
    }
    return line;
}

static const char *info(int file, const char *begins) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", file);
    return line_of(path, begins);
}

static void *thread(void *unused) {
    (void)unused;
    char link[64] = "", expected[64], path[96];
    ssize_t length = readlink("/proc/thread-self", link, sizeof link - 1);
    snprintf(expected, sizeof expected, "%d/task/%ld", getpid(), (long)syscall(SYS_gettid));
    printf("thread-self: %s, names this thread %d\n", result(length), !strcmp(link, expected));
    prctl(PR_SET_NAME, "a-thread");
    printf("its comm: %s", text_of("/proc/thread-self/comm"));
    snprintf(path, sizeof path, "Pid:\t%ld", (long)syscall(SYS_gettid));
    printf("its number in status: %d\n", !strcmp(line_of("/proc/thread-self/status", "Pid:"), path));
    struct stat own, named;
    snprintf(path, sizeof path, "/proc/%s", expected);
    printf("stat: %s", result(stat("/proc/thread-self", &own)));
    printf(" %s", result(stat(path, &named)));
    printf(", a folder %d, the same %d\n", S_ISDIR(own.st_mode), own.st_ino == named.st_ino);
    printf("lstat: %s", result(lstat("/proc/thread-self", &own)));
    printf(", a link %d\n", S_ISLNK(own.st_mode));
    int dir = open("/proc", O_RDONLY | O_DIRECTORY), folder = openat(dir, "thread-self", O_RDONLY | O_DIRECTORY);
    printf("by a descriptor: %s, comm %s, no folder of threads: %s\n", result(folder), result(faccessat(folder, "comm", R_OK, 0)), result(faccessat(folder, "task", R_OK, 0)));
    char again[64] = "";
    readlinkat(dir, "thread-self", again, sizeof again - 1);
    printf("readlinkat: the same %d\n", !strcmp(link, again));
    int file = open("/proc/thread-self/comm", O_WRONLY);
    printf("renamed: %s", result(write(file, "renamed", 7)));
    char name[16];
    prctl(PR_GET_NAME, name);
    printf(" `%s`\n", name);
    printf("an empty name: %ld", (long)write(file, "", 0));
    prctl(PR_GET_NAME, name);
    printf(" `%s`\n", name);
    close(file);
    close(folder);
    close(dir);
    return NULL;
}

static void test_thread(void) {
    pthread_t other;
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    char name[16];
    prctl(PR_GET_NAME, name);
    printf("the first one is still `%.10s`\n", name);
}

static void test_events(void) {
    int event = eventfd(7, 0), half = eventfd(0x1234, EFD_SEMAPHORE);
    printf("eventfd: `%s`", info(event, "eventfd-count:"));
    printf(" `%s`\n", info(half, "eventfd-count:"));
    uint64_t value;
    read(event, &value, 8);
    printf("  after a read: `%s`\n", info(event, "eventfd-count:"));
    close(event);
    close(half);
}

static void test_notices(void) {
    char folder[] = "texts-XXXXXX";
    mkdtemp(folder);
    int queue = inotify_init1(IN_NONBLOCK);
    printf("inotify without watches: `%s`\n", info(queue, "inotify"));
    int watch = inotify_add_watch(queue, folder, IN_CREATE | IN_DELETE | IN_ONLYDIR | IN_EXCL_UNLINK);
    struct stat stat_;
    stat(folder, &stat_);
    unsigned wd = 0, mask = 0, ignored = 1;
    unsigned long ino = 0, dev = 0;
    const char *line = info(queue, "inotify");
    int read = sscanf(line, "inotify wd:%x ino:%lx sdev:%lx mask:%x ignored_mask:%x", &wd, &ino, &dev, &mask, &ignored);
    printf("inotify: %d fields, its watch %d, its file %d, its events %x %x\n", read, (int)wd == watch, ino == stat_.st_ino, mask & 0xfff, ignored);
    printf("its device: %d\n", dev == ((unsigned long)major(stat_.st_dev) << 20 | minor(stat_.st_dev)));
    inotify_rm_watch(queue, watch);
    printf("without it: `%s`\n", info(queue, "inotify"));
    close(queue);
    rmdir(folder);
}

static void test_mounts(void) {
    int files[3] = {open("/", O_RDONLY), open("/proc", O_RDONLY), open("/proc/self/stat", O_RDONLY)};
    static const char *const places[] = {" / / ", " / /proc ", " / /proc "};
    for (int i = 0; i < 3; i++) {
        int number = -1, told = -2;
        sscanf(info(files[i], "mnt_id:"), "mnt_id:\t%d", &told);
        /* The last one at the place. */
        for (const char *at = text_of("/proc/self/mountinfo"); at && *at; at = strchr(at, '\n'), at += at != NULL) {
            const char *place = strstr(at, places[i]), *stop = strchr(at, '\n');
            if (place && place < stop)
                number = atoi(at);
        }
        printf("mnt_id %d: as in mountinfo %d\n", i, number == told);
        close(files[i]);
    }
}

static void test_others(void) {
    printf("timerslack_ns: %s", text_of("/proc/self/timerslack_ns"));
    prctl(PR_SET_TIMERSLACK, 1234567);
    printf("  as prctl said: %s", text_of("/proc/self/timerslack_ns"));
    int file = open("/proc/self/timerslack_ns", O_RDWR);
    printf("  written: %s", result(write(file, "7000\n", 5)));
    printf(", wrong: %s", result(write(file, "x", 1)));
    printf(", prctl says %d\n", prctl(PR_GET_TIMERSLACK));
    printf("  0 means as it began: %s", result(write(file, "0", 1)));
    printf(", prctl says %d\n", prctl(PR_GET_TIMERSLACK));
    close(file);
    printf("context switches: %d %d\n", !strncmp(line_of("/proc/self/status", "voluntary_ctxt_switches"), "voluntary", 9),
           !strncmp(line_of("/proc/self/status", "nonvoluntary_ctxt_switches"), "nonvoluntary", 12));
}

static volatile int made;

static void *with_a_mask(void *nothing) {
    // (Whoever makes a thread may block signals meanwhile.)
    while (!made) usleep(1000);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, 64);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)syscall(SYS_gettid));
    printf("a thread's: %s\n", line_of(path, "SigBlk"));
    snprintf(path, sizeof path, "/proc/self/task/%d/status", getpid());
    printf("the first one's: %s\n", line_of(path, "SigBlk"));
    return nothing;
}

/* Masks: of threads, of a child before it runs a program and behind that, of one that waits for signals with another mask. */
static void test_masks(void) {
    printf("none: %s\n", line_of("/proc/self/status", "SigBlk"));
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGKILL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("own: %s\n", line_of("/proc/self/status", "SigBlk"));
    pthread_t thread;
    pthread_create(&thread, NULL, with_a_mask, NULL);
    made = 1;
    pthread_join(thread, NULL);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        sigaddset(&set, SIGHUP);
        sigdelset(&set, SIGUSR1);
        for (;;) sigsuspend(&set);
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", child);
    for (int i = 0; i < 2000 && !strstr(line_of(path, "SigBlk"), "0001"); i++) usleep(1000);
    printf("a child's that waits: %s\n", line_of(path, "SigBlk"));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    fflush(stdout);
    if (!(child = fork())) {
        execl("/proc/self/exe", "proc-texts", "mask", NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void test_same(void) {
    printf("cpuset: %s", text_of("/proc/self/cpuset"));
    printf("net: %d\n", !strcmp(line_of("/proc/self/net/route", "Iface"), line_of("/proc/net/route", "Iface")));
    struct stat other, own;
    printf("execdomains: %s", text_of("/proc/execdomains"));
    printf("terminals: %s\n", line_of("/proc/tty/drivers", "pty_slave"));
    printf("mountstats: %s\n", strstr(text_of("/proc/self/mountstats"), " mounted on /proc with fstype proc\n") ? "proc" : "none");
    printf("its mode: %o\n", stat("/proc/self/mountstats", &own) ? 0 : own.st_mode);
    printf("another's: %d\n", stat("/proc/1/mountstats", &other) ? -1 : (int)other.st_uid);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "mask")) {
        printf("a program's: %s\n", line_of("/proc/self/status", "SigBlk"));
        end(0);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    test_thread();
    test_events();
    test_notices();
    test_mounts();
    test_others();
    test_masks();
    test_same();
    end(0);
}
