/* Groups of processes: limits of memory and tasks hold for a group and those below it, nobody beside it ends, and a user moves processes within what was given to him only.
   (The Linux that the tests boot has no groups.) cairn-test: linux=no */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <dirent.h>
#include <unistd.h>

#define ROOT "/sys/fs/cgroup"
enum { PAGE = 4096, MIB = 1 << 20, USER = 1000 };
static int failed;

static void expect_at(int line, const char *what, long got, int errno_wanted, long wanted) {
    int error = got == -1 ? errno : 0;
    if (got != wanted || error != errno_wanted) {
        printf("%d: %s: %ld (%s), not %ld (%s)\n", line, what, got, strerror(error), wanted, strerror(errno_wanted));
        failed = 1;
    }
}
#define expect(what, error) expect_at(__LINE__, #what, (long)(what), error, (error) ? -1 : 0)
#define is(what, value) expect_at(__LINE__, #what, (long)(what), 0, value)

static int put_bytes(const char *path, const char *text, int length) {
    int fd = open(path, O_WRONLY | O_TRUNC);
    if (fd < 0) return -1;
    int done = write(fd, text, length), error = errno;
    close(fd);
    errno = error;
    return done < 0 ? -1 : 0;
}
static int put(const char *path, const char *text) { return put_bytes(path, text, strlen(text)); }
static char *get(const char *path) {
    static char text[65536];
    int fd = open(path, O_RDONLY), n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    return text;
}
/* The number behind a name in a file, or the file's only one. */
static long number(const char *path, const char *name) {
    char *text = get(path);
    if (*name) {
        char line[64];
        snprintf(line, sizeof line, "%s ", name);
        char *at = text;
        while (at && strncmp(at, line, strlen(line)) != 0) at = (at = strchr(at, '\n')) ? at + 1 : NULL;
        if (!at) return -2;
        text = at + strlen(line);
    }
    return strtol(text, NULL, 10);
}
static int says(const char *path, const char *text) { return strcmp(get(path), text) == 0; }

/* A child in a group; -> its wait status. */
static int in_group(const char *procs, int uid, int (*what)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (put(procs, "0")) _exit(100 + errno);
        if (uid && (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))) _exit(98);
        int result = what();
        fflush(stdout);
        _exit(failed ? 99 : result);
    }
    int status;
    waitpid(child, &status, 0);
    return status;
}

static int eats(void) {
    for (;;) {
        char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) return 3;
        memset(p, 1, MIB);
    }
}
/* Files are refused, and nobody ends for them. */
static int fills_files(void) {
    static char block[MIB];
    int fd = open("/tmp/cgroup-file", O_CREAT | O_WRONLY, 0600), written = 0;
    unlink("/tmp/cgroup-file");
    /* What is wanted later is there already, so nobody has to end for it. */
    memset(block, 1, sizeof block);
    number(ROOT "/a/memory.current", "");
    while (written < 64 && write(fd, block, MIB) == MIB) written++;
    is(written > 8 && written < 32, 1);
    errno = 0;
    /* The last one took what there was still room for. */
    is(write(fd, block, MIB) < MIB && (errno == ENOSPC || errno == ENOMEM), 1);
    is(number(ROOT "/a/memory.current", "") > 8 * MIB, 1);
    close(fd);
    return 0;
}
static int fills_pipes(void) {
    static char block[MIB];
    int written = 0, ends[2];
    memset(block, 1, sizeof block);
    for (int i = 0; i < 48; i++) {
        if (pipe(ends)) break;
        fcntl(ends[1], F_SETPIPE_SZ, MIB);
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        int n = write(ends[1], block, MIB);
        written += n > 0 ? n / 65536 : 0;
    }
    /* (A user's pipes have 64 MiB without a group.) */
    is(written > 64 && written < 32 * 16, 1);
    return 0;
}
static int waits(void) { return pause(); }
static int forks(void) {
    int made = 0;
    while (made < 100) {
        pid_t child = fork();
        if (child < 0) break;
        if (child == 0) waits();
        made++;
    }
    int error = errno;
    is(made, 9);
    is(error, EAGAIN);
    is(number(ROOT "/a/pids.current", ""), 10);
    kill(0, SIGKILL);
    return 0;
}
static int forks_alone(void) {
    setpgid(0, 0);
    return forks();
}
static int moves_itself(void) {
    /* Within what was given: the folder and its cgroup.procs are this user's. */
    expect(mkdir(ROOT "/a/user/one", 0755), 0);
    expect(mkdir(ROOT "/a/user/two", 0755), 0);
    expect(put(ROOT "/a/user/one/cgroup.procs", "0"), 0);
    is(says("/proc/self/cgroup", "0::/a/user/one\n"), 1);
    expect(put(ROOT "/a/user/two/cgroup.procs", "0"), 0);
    /* Out of it, or somebody else's process into it, by no way. */
    expect(put(ROOT "/a/cgroup.procs", "0"), EACCES);
    expect(put(ROOT "/cgroup.procs", "0"), EACCES);
    expect(put(ROOT "/a/user/one/cgroup.procs", "1"), EACCES);
    expect(mkdir(ROOT "/a/else", 0755), EACCES);
    expect(put(ROOT "/a/user/memory.max", "max"), EACCES);
    expect(put(ROOT "/a/memory.max", "max"), EACCES);
    expect(rmdir(ROOT "/a/user/one"), 0);
    expect(rmdir(ROOT "/a/user/two"), EBUSY);
    return 0;
}

int main(void) {
    alarm(60);
    setvbuf(stdout, NULL, _IOLBF, 0);
    mkdir("/sys/fs/cgroup", 0755);
    expect(mount("cgroup2", ROOT, "cgroup2", 0, NULL), 0);
    is(says(ROOT "/cgroup.controllers", "cpu memory pids\n"), 1);
    is(says("/proc/self/cgroup", "0::/\n"), 1);
    is(access(ROOT "/memory.max", F_OK) != 0, 1);
    expect(mkdir(ROOT "/a", 0755), 0);
    is(access(ROOT "/a/memory.max", F_OK) != 0, 1);
    expect(put(ROOT "/a/cgroup.subtree_control", "+memory"), ENOENT);
    expect(put(ROOT "/cgroup.subtree_control", "+io"), EINVAL);
    expect(put(ROOT "/cgroup.subtree_control", "+memory +pids"), 0);
    is(says(ROOT "/a/memory.max", "max\n") && says(ROOT "/a/pids.max", "max\n"), 1);
    is(says(ROOT "/a/cgroup.events", "populated 0\nfrozen 0\n"), 1);
    expect(put(ROOT "/a/memory.max", "much"), EINVAL);
    expect(put(ROOT "/a/pids.max", "-1"), EINVAL);
    /* The NUL of a C string, and what is behind it. */
    expect(put_bytes(ROOT "/a/pids.max", "77\n", 4), 0);
    is(says(ROOT "/a/pids.max", "77\n"), 1);
    expect(put_bytes(ROOT "/a/pids.max", "max\0x", 5), 0);
    is(says(ROOT "/a/pids.max", "max\n"), 1);
    expect(put(ROOT "/a/memory.max", "32M"), 0);
    is(number(ROOT "/a/memory.max", ""), 32 * MIB);
    expect(put(ROOT "/a/cgroup.threads", "0"), EOPNOTSUPP);
    expect(open(ROOT "/a/file", O_CREAT | O_WRONLY, 0644), EPERM);

    /* Memory: of user 0 and of others alike, and of a group below. */
    int status = in_group(ROOT "/a/cgroup.procs", 0, eats);
    is(WIFSIGNALED(status) ? WTERMSIG(status) : -2, SIGKILL);
    is(number(ROOT "/a/memory.events", "oom_kill"), 1);
    status = in_group(ROOT "/a/cgroup.procs", USER, eats);
    is(WIFSIGNALED(status) ? WTERMSIG(status) : -2, SIGKILL);
    is(number(ROOT "/a/memory.events", "oom_kill"), 2);
    is(number(ROOT "/a/memory.events", "max") > 0, 1);
    is(in_group(ROOT "/a/cgroup.procs", USER, fills_files), 0);
    is(in_group(ROOT "/a/cgroup.procs", USER, fills_pipes), 0);
    is(in_group(ROOT "/a/cgroup.procs", 0, fills_files), 0);
    /* (What they had goes back in pieces, beside other programs.) */
    for (int i = 0; i < 100 && number(ROOT "/a/memory.current", "") >= 2 * MIB; i++) usleep(10000);
    is(number(ROOT "/a/memory.current", "") < 2 * MIB, 1);

    /* Tasks. */
    expect(put(ROOT "/a/pids.max", "10"), 0);
    status = in_group(ROOT "/a/cgroup.procs", USER, forks_alone);
    is(WIFSIGNALED(status) ? WTERMSIG(status) : -2, SIGKILL);
    is(number(ROOT "/a/pids.events", "max"), 1);
    for (int i = 0; i < 100 && number(ROOT "/a/pids.current", "") != 0; i++) usleep(10000);
    is(number(ROOT "/a/pids.current", ""), 0);

    /* A group below: the limit above holds, it can be ended as a whole, and what shares out memory has no processes of its own. */
    expect(mkdir(ROOT "/a/b", 0755), 0);
    expect(put(ROOT "/a/cgroup.subtree_control", "+memory +pids"), 0);
    expect(put(ROOT "/a/cgroup.procs", "0"), EBUSY);
    status = in_group(ROOT "/a/b/cgroup.procs", USER, eats);
    is(WIFSIGNALED(status) ? WTERMSIG(status) : -2, SIGKILL);
    is(number(ROOT "/a/memory.events", "oom_kill"), 3);
    is(number(ROOT "/a/b/memory.events", "oom_kill"), 1);
    pid_t sleeper = fork();
    if (sleeper == 0) {
        put(ROOT "/a/b/cgroup.procs", "0");
        fork();
        waits();
    }
    for (int i = 0; i < 100 && number(ROOT "/a/pids.current", "") != 2; i++) usleep(10000);
    is(number(ROOT "/a/b/pids.current", ""), 2);
    is(number(ROOT "/a/b/cgroup.procs", "") > 0, 1);
    is(says(ROOT "/a/cgroup.procs", ""), 1);
    is(number(ROOT "/a/cgroup.events", "populated"), 1);
    expect(rmdir(ROOT "/a/b"), EBUSY);
    expect(put(ROOT "/a/cgroup.kill", "2"), ERANGE);
    expect(put(ROOT "/a/cgroup.kill", "1"), 0);
    waitpid(sleeper, &status, 0);
    is(WIFSIGNALED(status) ? WTERMSIG(status) : -2, SIGKILL);
    for (int i = 0; i < 100 && number(ROOT "/a/cgroup.events", "populated") != 0; i++) usleep(10000);
    is(number(ROOT "/a/cgroup.events", "populated"), 0);

    /* All of a group ends with the one. */
    expect(put(ROOT "/a/b/memory.oom.group", "1"), 0);
    sleeper = fork();
    if (sleeper == 0) {
        put(ROOT "/a/b/cgroup.procs", "0");
        waits();
    }
    for (int i = 0; i < 100 && number(ROOT "/a/b/pids.current", "") < 1; i++) usleep(10000);
    in_group(ROOT "/a/b/cgroup.procs", USER, eats);
    waitpid(sleeper, &status, 0);
    is(WIFSIGNALED(status) ? WTERMSIG(status) : -2, SIGKILL);
    expect(rmdir(ROOT "/a/b"), 0);

    /* A user's own. */
    expect(mkdir(ROOT "/a/user", 0755), 0);
    expect(chown(ROOT "/a/user", USER, USER), 0);
    expect(chown(ROOT "/a/user/cgroup.procs", USER, USER), 0);
    expect(chown(ROOT "/a/user/cgroup.subtree_control", USER, USER), 0);
    is(in_group(ROOT "/a/user/cgroup.procs", USER, moves_itself), 0);
    /* A file that root opened moves nobody for the user but who opened it could. */
    expect(rmdir(ROOT "/a/user/two"), 0);

    /* Many: made, found, removed. */
    char name[64];
    expect(put(ROOT "/a/cgroup.subtree_control", "-memory -pids"), 0);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, ROOT "/a/user/%d", i);
        if (mkdir(name, 0755)) {
            expect(-1, 0);
            break;
        }
    }
    int found = 0;
    DIR *dir = opendir(ROOT "/a/user");
    for (struct dirent *e; (e = readdir(dir));) found += e->d_type == DT_DIR && e->d_name[0] != '.';
    closedir(dir);
    is(found, 300);
    expect(umount(ROOT), EBUSY);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, ROOT "/a/user/%d", i);
        rmdir(name);
    }
    expect(rmdir(ROOT "/a/user"), 0);
    expect(rmdir(ROOT "/a"), 0);
    expect(umount(ROOT), 0);
    puts(failed ? "failed" : "all as it should be");
    return failed;
}
