// Capabilities of files: attributes of tmpfs, what a program with `security.capability` has, for whom, and what takes them away; securebits.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define BIT(number) (1ULL << (number))
enum { CHOWN = 0, KILL = 5, SETPCAP = 8, NICE = 23 };
#define FIRST 0x1ffffffffULL /* what both systems have */
#define NAME "security.capability"

static char *self = "/proc/self/exe";

static void show(const char *what) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    printf("%-24s", what);
    while (file && fgets(line, sizeof line, file)) {
        unsigned long long set;
        char name[8];
        if (sscanf(line, "Cap%7[A-Za-z]: %llx", name, &set) == 2)
            printf(" %s %09llx", name, set & FIRST);
    }
    printf(" ids %d %d", getuid(), geteuid());
    if (!prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0))
        printf(", secure %lu", getauxval(AT_SECURE));
    printf(", dumpable %d, bits %x\n", prctl(PR_GET_DUMPABLE), prctl(PR_GET_SECUREBITS));
    fflush(stdout);
}

static const char *because(long result) {
    static char other[20];
    if (result >= 0)
        return "done";
    switch (errno) {
    case EPERM: return "EPERM";
    case EEXIST: return "EEXIST";
    case ENODATA: return "ENODATA";
    case ERANGE: return "ERANGE";
    case EINVAL: return "EINVAL";
    case EOPNOTSUPP: return "EOPNOTSUPP";
    }
    snprintf(other, sizeof other, "%d", errno);
    return other;
}

/* The attribute in its second form. */
static int give(const char *path, unsigned long long permitted, unsigned long long inheritable, int effective) {
    unsigned words[5] = {0x02000000 | effective, permitted, inheritable, permitted >> 32, inheritable >> 32};
    return setxattr(path, NAME, words, sizeof words, 0);
}

static int set(unsigned long long effective, unsigned long long permitted, unsigned long long inheritable) {
    unsigned header[2] = {0x20080522, 0};
    unsigned data[6] = {effective, permitted, inheritable, effective >> 32, permitted >> 32, inheritable >> 32};
    return syscall(SYS_capset, header, data);
}

enum how { PLAIN, BOUND, INHERIT, AMBIENT, NO_NEW, ROOT, SECURE };

/* Run a program as a user, from a state of its own. */
static void run(const char *what, const char *path, enum how how) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (how == BOUND)
            prctl(PR_CAPBSET_DROP, KILL);
        if (how == SECURE)
            printf("  bits: %s\n", because(prctl(PR_SET_SECUREBITS, 0x2f)));
        if (how == INHERIT || how == AMBIENT) {
            set(~0ULL, ~0ULL, BIT(KILL) | BIT(NICE));
            prctl(PR_SET_KEEPCAPS, 1);
        }
        setgroups(0, NULL);
        if (how != ROOT && how != SECURE && (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000)))
            _exit(1);
        if (how == AMBIENT)
            printf("  ambient: %s\n", because(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, KILL, 0, 0)));
        if (how == NO_NEW)
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        fflush(stdout);
        execl(path, path, "show", what, NULL);
        printf("%-24s %s\n", what, because(-1));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void copy(const char *to, int mode) {
    char buffer[65536];
    int from = open(self, O_RDONLY), into = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    for (ssize_t n; (n = read(from, buffer, sizeof buffer)) > 0;)
        if (write(into, buffer, n) != n)
            perror("write");
    close(from);
    close(into);
    chmod(to, mode);
}

static int compare(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }

static void list(const char *path) {
    char names[4096], *all[64];
    ssize_t length = llistxattr(path, names, sizeof names);
    int count = 0;
    for (char *at = names; length > 0 && at < names + length; at += strlen(at) + 1)
        all[count++] = at;
    qsort(all, count, sizeof *all, compare);
    printf("names: %s", because(length));
    for (int i = 0; i < count; i++)
        printf(" %s", all[i]);
    printf("\n");
}

static void attributes(void) {
    char value[100];
    close(open("file", O_CREAT | O_WRONLY, 0644));
    mkdir("folder", 0755);
    symlink("file", "link");
    printf("none: %s\n", because(getxattr("file", "trusted.a", value, sizeof value)));
    list("file");
    printf("set: %s", because(setxattr("file", "trusted.a", "one", 3, 0)));
    printf(", again %s", because(setxattr("file", "trusted.a", "two", 3, XATTR_CREATE)));
    printf(", other %s", because(setxattr("file", "trusted.b", "two", 3, XATTR_REPLACE)));
    printf(", changed %s", because(setxattr("file", "trusted.a", "three", 5, XATTR_REPLACE)));
    printf(", empty %s", because(setxattr("file", "security.x", NULL, 0, 0)));
    printf(", folder %s, link %s\n", because(setxattr("folder", "trusted.f", "f", 1, 0)), because(lsetxattr("link", "trusted.l", "l", 1, 0)));
    ssize_t length = getxattr("link", "trusted.a", value, sizeof value);
    printf("get: %zd %.5s, size %zd", length, value, getxattr("file", "trusted.a", NULL, 0));
    printf(", small %s, empty %zd\n", because(getxattr("file", "trusted.a", value, 2)), getxattr("file", "security.x", value, sizeof value));
    list("file");
    list("link");
    list("folder");
    rename("file", "moved");
    link("moved", "file");
    printf("moved: %zd, other name %zd\n", getxattr("moved", "trusted.a", value, sizeof value), getxattr("file", "trusted.a", value, sizeof value));
    printf("remove: %s", because(removexattr("file", "trusted.a")));
    printf(", again %s", because(removexattr("file", "trusted.a")));
    printf(", %s\n", because(getxattr("moved", "trusted.a", value, sizeof value)));
    printf("kinds: %s", because(setxattr("file", "nothing.x", "x", 1, 0)));
    printf(" %s", because(setxattr("file", "trusted.", "x", 1, 0)));
    printf(" %s\n", because(setxattr("file", "x", "x", 1, 0)));
    fflush(stdout);
    if (fork() == 0) {
        if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
            _exit(1);
        printf("user: trusted %s", because(setxattr("file", "trusted.u", "u", 1, 0)));
        printf(" %s", because(getxattr("folder", "trusted.f", value, sizeof value)));
        printf(", security %zd", getxattr("file", "security.x", value, sizeof value));
        printf(", capability %s\n", because(give("file", BIT(KILL), 0, 1)));
        list("folder");
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    unsigned short_one[3] = {0x01000000, 1, 0}, wrong[5] = {0x03000000}, root[6] = {0x03000001, 1, 0, 0, 0, 1000};
    printf("capability: first form %s", because(setxattr("file", NAME, short_one, 12, 0)));
    printf(", wrong length %s", because(setxattr("file", NAME, wrong, 20, 0)));
    printf(", of another %s", because(setxattr("file", NAME, root, 24, 0)));
    printf(", %zd\n", getxattr("file", NAME, value, sizeof value));
    unlink("file");
    unlink("moved");
    unlink("link");
    rmdir("folder");
}

static int has(const char *path) { return getxattr(path, NAME, NULL, 0) > 0; }

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "show") == 0) {
        show(argv[2]);
        return 0;
    }
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    if (mkdir("t", 0755) || mount("tmpfs", "t", "tmpfs", 0, "mode=755") || chdir("t"))
        perror("mount");
    attributes();
    copy("program", 0755);
    run("nothing", "./program", PLAIN);
    printf("give: %s\n", because(give("program", BIT(KILL) | BIT(NICE), 0, 1)));
    run("effective", "./program", PLAIN);
    run("root", "./program", ROOT);
    run("less in the bounds", "./program", BOUND);
    run("no new ones", "./program", NO_NEW);
    run("ambient", "./program", AMBIENT);
    mount("tmpfs", "../t", "tmpfs", MS_REMOUNT | MS_NOSUID, NULL);
    run("nosuid", "./program", PLAIN);
    mount("tmpfs", "../t", "tmpfs", MS_REMOUNT, NULL);
    give("program", BIT(KILL) | BIT(NICE), 0, 0);
    run("permitted", "./program", PLAIN);
    run("permitted in the bounds", "./program", BOUND);
    give("program", BIT(CHOWN), BIT(KILL), 1);
    run("inheritable", "./program", INHERIT);
    give("program", 0, BIT(KILL), 0);
    run("only inheritable", "./program", INHERIT);
    run("inherits nothing", "./program", PLAIN);
    chmod("program", 04755);
    give("program", BIT(KILL), 0, 1);
    run("and set-user-id", "./program", PLAIN);
    chmod("program", 0755);
    run("user 0 as others", self, SECURE);
    run("with a file's", "./program", SECURE);
    printf("has %d", has("program"));
    chmod("program", 0711);
    printf(", mode %d", has("program"));
    chown("program", 0, 0);
    printf(", owner %d", has("program"));
    give("program", BIT(KILL), 0, 1);
    truncate("program", 100);
    printf(", length %d", has("program"));
    give("program", BIT(KILL), 0, 1);
    int fd = open("program", O_WRONLY);
    printf(", opened %d", has("program"));
    write(fd, "x", 1);
    printf(", written %d", has("program"));
    setxattr("program", "trusted.a", "one", 3, 0);
    give("program", BIT(KILL), 0, 1);
    printf(", again %d", has("program"));
    write(fd, "x", 1);
    printf(", written %d, other %zd", has("program"), getxattr("program", "trusted.a", NULL, 0));
    give("program", BIT(KILL), 0, 1);
    printf(", fallocate %s %d\n", because(fallocate(fd, 0, 0, 200)), has("program"));
    close(fd);
    chdir("..");
    umount("t");
    rmdir("t");
    return 0;
}
