/* The end of a PID name space's process 1, and reboot(2) in such a name space: the machine and its disks go on. In the directory where it is.
 * cairn-test: disk=32M */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RESTART = 0x01234567, POWER_OFF = 0x4321fedc };
#define HALT 0xcdef0123u
#define KEYS 0x89abcdefu

static long boot(unsigned what) {
    return syscall(SYS_reboot, 0xfee1dead, 672274793, what, 0);
}

static void writes(const char *when) {
    int fd = open("written", O_CREAT | O_WRONLY | O_TRUNC, 0644);
    ssize_t count = fd < 0 ? -1 : write(fd, "text", 4);
    printf("%s: %s\n", when, count == 4 && !fsync(fd) ? "files are written" : strerror(errno));
    close(fd);
    unlink("written");
    fflush(stdout);
}

static void ended(const char *what, pid_t child) {
    int status;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) printf("%s: signal %d\n", what, WTERMSIG(status));
    else printf("%s: status %d\n", what, WEXITSTATUS(status));
    fflush(stdout);
}

/* The first process of a new name space does this. */
static void in_space(const char *what, int flags, int (*does)(unsigned), unsigned argument) {
    pid_t maker = fork();
    if (!maker) {
        if (unshare(flags)) perror("unshare"), exit(1);
        pid_t first = fork();
        if (!first) {
            int status = getpid() == 1 ? does(argument) : 99;
            exit(status);
        }
        ended(what, first);
        exit(0);
    }
    waitpid(maker, 0, 0);
    writes(what);
}

static int leaves(unsigned status) {
    return status;
}

static int boots(unsigned what) {
    boot(what);
    return errno;
}

static int has_it_done(unsigned what) {
    if (!fork()) exit(boots(what));
    for (;;) pause();
}

static int without_rights(unsigned what) {
    if (setuid(1000)) return 98;
    return boots(what) == EPERM ? 7 : 97;
}

static int nested(unsigned what) {
    if (unshare(CLONE_NEWPID)) return 96;
    pid_t first = fork();
    if (!first) exit(boots(what));
    ended("the one within", first);
    return 5;
}

static int wrong(unsigned what) {
    long wrong = syscall(SYS_reboot, 1, 2, what, 0);
    if (wrong != -1 || errno != EINVAL) return 95;
    return boots(what);
}

int main(void) {
    writes("before");
    in_space("it exits", CLONE_NEWPID, leaves, 3);
    in_space("restart", CLONE_NEWPID, boots, RESTART);
    in_space("power off", CLONE_NEWPID, boots, POWER_OFF);
    in_space("halt", CLONE_NEWPID, boots, HALT);
    in_space("a child has it done", CLONE_NEWPID, has_it_done, RESTART);
    in_space("keys", CLONE_NEWPID, wrong, KEYS);
    in_space("something else", CLONE_NEWPID, wrong, 4711);
    in_space("user 1000", CLONE_NEWPID, without_rights, RESTART);
    in_space("nested", CLONE_NEWPID, nested, RESTART);
    pid_t user = fork();
    if (!user) {
        if (setgid(1000) || setuid(1000)) return 1;
        printf("outside, user 1000: %s\n", boot(POWER_OFF) < 0 ? strerror(errno) : "done");
        in_space("its own", CLONE_NEWUSER | CLONE_NEWPID, boots, POWER_OFF);
        return 0;
    }
    waitpid(user, 0, 0);
    writes("after");
    return 0;
}
