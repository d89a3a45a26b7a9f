// Capabilities: what changes of user, exec, capset and prctl do to the sets, and what a process may without them, whoever it is.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define BIT(number) (1ULL << (number))
enum { CHOWN = 0, DAC_OVERRIDE = 1, FOWNER = 3, KILL = 5, SETUID = 7, SYS_ADMIN = 21, MKNOD = 27 };
#define FIRST 0x1ffffffffULL /* what both systems have */

static void show(const char *what) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    printf("%-28s", what);
    while (file && fgets(line, sizeof line, file)) {
        unsigned long long set;
        char name[8];
        if (sscanf(line, "Cap%7[A-Za-z]: %llx", name, &set) == 2)
            printf(" %s %09llx", name, set & FIRST);
        if (strncmp(line, "NoNewPrivs:", 11) == 0)
            printf(" nnp %c", line[12]);
    }
    printf("\n");
    fflush(stdout);
    if (file)
        fclose(file);
}

static int set(unsigned long long effective, unsigned long long permitted, unsigned long long inheritable) {
    unsigned header[2] = {0x20080522, 0};
    unsigned data[6] = {effective, permitted, inheritable, effective >> 32, permitted >> 32, inheritable >> 32};
    return syscall(SYS_capset, header, data);
}

static void told(const char *what, long result) {
    printf("%s: %ld %s\n", what, result < 0 ? -1 : result, result < 0 ? strerror(errno) : "");
}

static void may(void) {
    int fd = open("secret", O_RDONLY);
    told("  read what is nobody's", fd < 0 ? fd : 0);
    if (fd >= 0)
        close(fd);
    told("  access", access("secret", R_OK));
    told("  eaccess", faccessat(AT_FDCWD, "secret", R_OK, AT_EACCESS));
    told("  chown", chown("own", 7, 7));
    told("  chmod another's", chmod("secret", 0));
    told("  mknod", mknod("node", S_IFCHR | 0600, makedev(1, 3)));
    unlink("node");
    told("  kill init", kill(1, 0));
    told("  sethostname", sethostname("cap", 3));
    told("  nice", setpriority(PRIO_PROCESS, 0, -1));
    setpriority(PRIO_PROCESS, 0, 0);
}

static void child(const char *what, void (*run)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        printf("%s\n", what);
        run();
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (status)
        printf("%s: status %x\n", what, status);
}

static void all(void) {
    show("root");
    may();
}

static void none(void) {
    told("capset", set(0, 0, 0));
    show("root without");
    may();
    told("setuid", setuid(5));
    told("capset again", set(BIT(KILL), BIT(KILL), 0));
}

static void few(void) {
    unsigned long long left = BIT(KILL) | BIT(SETUID);
    told("capset", set(left, left, 0));
    show("root with two");
    may();
    told("more", set(left, left | BIT(CHOWN), 0));
    told("setgroups", setgroups(0, NULL));
    told("setuid", setresuid(0, 5, 0));
    show("another user for a while");
    told("back", setresuid(0, 0, 0));
    show("and back");
}

static void kept(void) {
    told("keep", prctl(PR_SET_KEEPCAPS, 1));
    told("is kept", prctl(PR_GET_KEEPCAPS));
    told("setresgid", setresgid(7, 7, 7));
    told("setresuid", setresuid(5, 5, 5));
    show("user 5");
    may();
    unsigned long long files = BIT(CHOWN) | BIT(DAC_OVERRIDE) | BIT(FOWNER) | BIT(4);
    told("capset", set(files, files, BIT(KILL)));
    told("capset", set(files, files, 0));
    show("user 5 with files'");
    may();
    told("dropped", set(0, 0, 0));
    may();
}

static void lost(void) {
    told("setuid", setuid(5));
    show("user 5");
    may();
}

static void executed(const char *how) {
    fflush(stdout);
    execl("/proc/self/exe", "capabilities", how, (char *)0);
    told("exec", -1);
}

static void bounded(void) {
    told("drop", prctl(PR_CAPBSET_DROP, CHOWN));
    told("read", prctl(PR_CAPBSET_READ, CHOWN));
    told("read", prctl(PR_CAPBSET_READ, KILL));
    told("read", prctl(PR_CAPBSET_READ, 63));
    executed("bounded");
}

static void regained(void) {
    told("capset", set(0, BIT(KILL), 0));
    executed("regained");
}

static void ambient(void) {
    told("raise", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, KILL, 0, 0));
    told("capset", set(FIRST, FIRST, BIT(KILL)));
    told("keep", prctl(PR_SET_KEEPCAPS, 1));
    told("setresuid", setresuid(5, 5, 5));
    told("raise", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, KILL, 0, 0));
    told("set", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, KILL, 0, 0));
    told("raise", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CHOWN, 0, 0));
    told("nonsense", prctl(PR_CAP_AMBIENT, 9, KILL, 0, 0));
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    executed("ambient");
}

static void versions(void) {
    unsigned header[2] = {1, 0};
    unsigned data[6] = {0};
    told("nonsense", syscall(SYS_capget, header, data));
    printf("%x\n", header[0]);
    header[0] = 1;
    told("asking", syscall(SYS_capget, header, NULL));
    header[1] = 99999;
    told("nobody", syscall(SYS_capget, header, data));
    header[1] = 1;
    told("init", syscall(SYS_capget, header, data));
    printf("%x %x %x\n", data[0], data[1], data[2]);
    header[0] = 0x19980330;
    memset(data, 0, sizeof data);
    told("old", syscall(SYS_capget, header, data));
    printf("%x %x %x %x\n", data[0], data[1], data[2], data[3]);
    header[0] = 0x20080522;
    told("another's", syscall(SYS_capset, header, data));
    header[1] = -1;
    told("negative", syscall(SYS_capget, header, data));
    told("securebits", prctl(PR_GET_SECUREBITS));
}

int main(int argc, char **argv) {
    if (argc > 1) {
        show(argv[1]);
        may();
        return 0;
    }
    // What ran before may have changed it for all of the user's.
    setpriority(PRIO_PROCESS, 0, 0);
    umask(022);
    mkdir("/tmp/caps", 0777);
    chmod("/tmp/caps", 0777);
    chdir("/tmp/caps");
    close(open("secret", O_CREAT | O_WRONLY, 0));
    chown("secret", 99, 99);
    close(open("own", O_CREAT | O_WRONLY, 0600));
    child("all", all);
    chown("own", 5, 5);
    child("none", none);
    child("few", few);
    child("kept", kept);
    chown("own", 5, 5);
    child("lost", lost);
    child("bounded", bounded);
    child("regained", regained);
    child("ambient", ambient);
    child("versions", versions);
    return 0;
}
