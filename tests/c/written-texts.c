/* What may be written to files of /proc that take a text: with the NUL of a C string, with white space, in several lines, in hexadecimal; and what the file says afterwards. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void show(const char *bytes, long length) {
    for (long i = 0; i < length; i++) {
        if (bytes[i] < ' ') {
            printf("\\%o", bytes[i]);
        } else {
            putchar(bytes[i]);
        }
    }
}

static void after(const char *path) {
    char text[256];
    int fd = open(path, O_RDONLY);
    long length = fd < 0 ? -1 : read(fd, text, sizeof text);
    printf(" [");
    if (length < 0) {
        printf("%s", strerror(errno));
    }
    show(text, length);
    puts("]");
    close(fd);
}

static void put(const char *path, const char *text, int length) {
    int fd = open(path, O_WRONLY);
    long done = fd < 0 ? -1 : write(fd, text, length);
    printf("%s <- ", path);
    show(text, length);
    printf(": %ld%s%s", done, done < 0 ? " " : "", done < 0 ? strerror(errno) : "");
    close(fd);
    after(path);
}

#define PUT(path, text) put(path, text, sizeof(text) - 1)

/* In every form; `a`, `b` and `c` are values. */
#define ALL(path, a, b, c)        \
    do {                          \
        PUT(path, a);             \
        PUT(path, b "\n");        \
        PUT(path, c "\n\0");      \
        PUT(path, a " \0");       \
        PUT(path, " " b "\n");    \
        PUT(path, "\0" c);        \
        PUT(path, c "\n\n");      \
        PUT(path, a "x");         \
        PUT(path, "\t" b "\t");   \
        PUT(path, "");            \
        PUT(path, "\0");          \
        PUT(path, a "\n" b "\n"); \
    } while (0)
/* Where the NUL may follow at once. */
#define ENDED(path, a, b, c)         \
    do {                             \
        PUT(path, a "\0");           \
        PUT(path, b "\0garbage");    \
        PUT(path, c "\0\0\0");       \
        PUT(path, a "\n\0garbage");  \
    } while (0)
/* Numbers of /proc/sys. */
#define NUMBER(path, a, b, c)  \
    do {                       \
        ALL(path, a, b, c);    \
        PUT(path, b "\nx");    \
        PUT(path, c " x");     \
        PUT(path, "+" a);      \
        PUT(path, "0x" b);     \
        PUT(path, "0" c);      \
        PUT(path, a "\0");     \
        PUT(path, a);          \
    } while (0)

/* A write that goes on where the first one ended. */
static void again(const char *path, const char *first, const char *second) {
    int fd = open(path, O_WRONLY);
    long a = write(fd, first, strlen(first)), b = write(fd, second, strlen(second));
    printf("%s <- %s, %s: %ld, %ld%s%s", path, first, second, a, b, b < 0 ? " " : "", b < 0 ? strerror(errno) : "");
    close(fd);
    after(path);
}

/* In a user name space of its own. */
static void apart(const char *path, const char *text, int length, int denied) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWUSER) != 0) {
            perror("unshare");
        }
        if (denied) {
            PUT("/proc/self/setgroups", "deny\0");
        }
        put(path, text, length);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

#define APART(path, text) apart(path, text, sizeof(text) - 1, 0)

static void spaces(void) {
    static const char groups[] = "/proc/self/setgroups";
    APART(groups, "deny");
    APART(groups, "deny\0");
    APART(groups, "deny\n\0");
    APART(groups, "deny\0x");
    APART(groups, "deny x");
    APART(groups, " deny");
    APART(groups, "denyx");
    APART(groups, "deny \n");
    APART(groups, "deny   ");
    APART(groups, "deny    ");
    APART(groups, "deny\0\0\0\0");
    APART(groups, "allow\0\0");
    APART(groups, "allow   ");
    APART(groups, "\0");
    static const char *const maps[] = {"/proc/self/uid_map", "/proc/self/gid_map"};
    static const struct {
        const char *text;
        int length;
    } texts[] = {
#define TEXT(text) {text, sizeof(text) - 1}
        TEXT("0 0 1"), TEXT("0 0 1\0"), TEXT("0 0 1\n\0"), TEXT("0 0 1\0garbage"), TEXT("0 0 1\n\0garbage"), TEXT("0 0 1\n\n"), TEXT(" 0 0 1 \n"),
        TEXT("\n0 0 1\n"), TEXT("0\t0\t1"), TEXT("0 0"), TEXT("\0"), TEXT("\n"), TEXT("0 0 1 x"), TEXT("0x0 0 1"), TEXT("+1 0 1"), TEXT("-1 0 1"),
        TEXT("0 0 1x"), TEXT("0 0 0"), TEXT("0 0 1\n0 5 1\n"),
    };
    for (int i = 0; i < 2; i++) {
        for (unsigned j = 0; j < sizeof texts / sizeof *texts; j++) {
            apart(maps[i], texts[j].text, texts[j].length, 1);
        }
    }
}

int main(void) {
    setbuf(stdout, NULL);
    ALL("/proc/self/oom_score_adj", "10", "20", "30");
    ENDED("/proc/self/oom_score_adj", "11", "21", "31");
    PUT("/proc/self/oom_score_adj", "0x20");
    PUT("/proc/self/oom_score_adj", "+017");
    PUT("/proc/self/oom_score_adj", "-0x10");
    PUT("/proc/self/oom_score_adj", "-");
    PUT("/proc/self/oom_score_adj", "5");
    ALL("/proc/self/timerslack_ns", "50001", "50002", "50003");
    ENDED("/proc/self/timerslack_ns", "50004", "50005", "50006");
    PUT("/proc/self/timerslack_ns", "0xc350");
    ALL("/proc/self/coredump_filter", "1", "2", "3");
    ENDED("/proc/self/coredump_filter", "4", "5", "6");
    ENDED("/proc/self/comm", "aa", "bb", "cc");
    int old = open("/proc/sys/kernel/hostname", O_RDONLY);
    char name[80];
    long length = read(old, name, sizeof name);
    ALL("/proc/sys/kernel/hostname", "aa", "bb", "cc");
    ENDED("/proc/sys/kernel/hostname", "dd", "ee", "ff");
    put("/proc/sys/kernel/domainname", "gg\nhh", 5);
    put("/proc/sys/kernel/hostname", name, length);
    NUMBER("/proc/sys/kernel/msgmax", "8101", "8102", "8103");
    NUMBER("/proc/sys/kernel/keys/maxkeys", "201", "202", "203");
    NUMBER("/proc/sys/fs/mqueue/msg_max", "11", "12", "13");
    NUMBER("/proc/sys/fs/lease-break-time", "41", "42", "43");
    PUT("/proc/sys/fs/lease-break-time", "45\n");
    PUT("/proc/sys/vm/drop_caches", "1\n\0");
    PUT("/proc/sys/vm/drop_caches", "0x1");
    PUT("/proc/sys/vm/drop_caches", "1\0");
    PUT("/proc/sys/vm/drop_caches", "3 x");
    PUT("/proc/sys/vm/drop_caches", "0");
    ALL("/proc/sys/kernel/sem", "1 2 3 4", "2 3 4 5", "3 4 5 6");
    PUT("/proc/sys/kernel/sem", "32000 1024000000");
    PUT("/proc/sys/kernel/sem", "32000 1024000000 500 32000\n");
    again("/proc/sys/kernel/msgmax", "8104\n", "8105\n");
    again("/proc/sys/kernel/msgmax", "8192", "x");
    PUT("/proc/sys/fs/mqueue/msg_max", "10\n");
    PUT("/proc/sys/kernel/keys/maxkeys", "200\n");
    spaces();
    return 0;
}
