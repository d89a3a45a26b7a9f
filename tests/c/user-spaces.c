/* User name spaces: an ordinary user has capabilities where it made the name space, and nowhere else; what ids are called inside; what maps may say. Files of name spaces, and setns(2). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *what, int result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "done");
    fflush(stdout);
}

static int put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    if (fd < 0) return -1;
    int result = write(fd, text, strlen(text)), error = errno;
    close(fd);
    errno = error;
    return result;
}

static void show(const char *path) {
    char text[256] = "";
    int fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0) return (void)printf("%s: %s\n", path, strerror(errno));
    printf("%s: %s", path, text);
    close(fd);
}

static int finish(pid_t pid) {
    int status = 0;
    fflush(stdout);
    waitpid(pid, &status, 0);
    return status;
}

static void ids(const char *where) {
    struct stat root = {0}, own = {0};
    stat("/", &root);
    stat("/proc/self/uid_map", &own);
    gid_t groups[8];
    printf("%s: %d %d %d %d, %d groups, / is %d's and %d's\n", where, getuid(), geteuid(), getgid(), getegid(), getgroups(8, groups), root.st_uid, root.st_gid);
}

static void host(const char *where) {
    struct utsname name;
    uname(&name);
    printf("%s: %s\n", where, !strcmp(name.nodename, "inside") ? "inside" : "outside");
}

static ino_t number(const char *path) {
    struct stat st;
    char text[64], link[64] = "";
    if (stat(path, &st) < 0) return 0;
    ssize_t length = readlink(path, link, sizeof link - 1);
    snprintf(text, sizeof text, "%s:[%lu]", strrchr(path, '/') + 1, (unsigned long)st.st_ino);
    if (length < 0 || strcmp(text, link)) printf("%s is called %s\n", path, link);
    return st.st_ino;
}

static void compare(pid_t pid) {
    static const char *const kinds[] = {"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"};
    for (int i = 0; i < 7; i++) {
        char other[64], own[64];
        snprintf(other, sizeof other, "/proc/%d/ns/%s", pid, kinds[i]);
        snprintf(own, sizeof own, "/proc/self/ns/%s", kinds[i]);
        printf("%s %s\n", kinds[i], number(own) == 0 ? "none" : number(own) == number(other) ? "same" : "another");
    }
}

/* In a child that has a pipe to be told by. */
static int go[2], ready[2];
static void say(int *to) { if (write(to[1], "x", 1) != 1) exit(9); }
static void hear(int *from) { char c; if (read(from[0], &c, 1) != 1) exit(9); }

/* An ordinary user becomes 0 in a user name space of its own. */
static void inside(void) {
    ids("no map");
    tell("become 0 without a map", setuid(0));
    tell("somebody else's user", put("/proc/self/uid_map", "0 0 1"));
    tell("two users", put("/proc/self/uid_map", "0 1000 2"));
    tell("no map", put("/proc/self/uid_map", "0 1000"));
    tell("users", put("/proc/self/uid_map", "0 1000 1\n"));
    tell("users again", put("/proc/self/uid_map", "0 1000 1\n"));
    tell("groups while setgroups is allowed", put("/proc/self/gid_map", "0 1000 1"));
    tell("no setgroups", put("/proc/self/setgroups", "deny"));
    tell("groups", put("/proc/self/gid_map", "0 1000 1\n"));
    show("/proc/self/uid_map");
    show("/proc/self/setgroups");
    ids("as 0");
    tell("setgroups", setgroups(0, NULL));
    tell("become 1", setuid(1));
    tell("become 0", setresuid(0, 0, 0));
    tell("host name", sethostname("inside", 6));
    host("in it");
    tell("read what is root's", open("/root/secret", O_RDONLY));
    tell("chown to 0", chown("/tmp/users", 0, 0));
    tell("chown to 1", chown("/tmp/users", 1, -1));
    tell("chown of root's", chown("/etc/passwd", 0, 0));
    tell("device", mknod("/tmp/users-device", S_IFCHR | 0666, 0x103));
    tell("mount", mount("tmpfs", "/mnt", "tmpfs", 0, NULL));
    tell("file there", open("/mnt/x", O_CREAT | O_WRONLY, 0644));
    struct stat st = {0};
    stat("/mnt/x", &st);
    printf("it is %d's\n", st.st_uid);
    tell("kill 1", kill(1, 0));
    tell("more priority", setpriority(PRIO_PROCESS, 0, -5));
    struct rlimit limit = {1 << 20, 1 << 20};
    tell("less", setrlimit(RLIMIT_CORE, &limit));
    limit.rlim_max = RLIM_INFINITY;
    tell("more", setrlimit(RLIMIT_CORE, &limit));
    int pair[2], on = 1;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    struct ucred peer = {0};
    socklen_t length = sizeof peer;
    (void)on;
    getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &peer, &length);
    printf("peer %d %d\n", peer.uid, peer.gid);
    /* One in it. */
    tell("one more", unshare(CLONE_NEWUSER));
    tell("whom there is not", put("/proc/self/uid_map", "7 1000 1"));
    tell("users", put("/proc/self/uid_map", "7 0 1"));
    tell("groups", put("/proc/self/gid_map", "8 0 1"));
    ids("as 7");
    show("/proc/self/uid_map");
    tell("host name of the one above", sethostname("deeper", 6));
    tell("its mounts", umount("/mnt"));
    host("in it");
}

static void user(void) {
    if (setgroups(0, NULL) < 0 || setgid(1000) < 0 || setuid(1000) < 0) exit(9);
    prctl(PR_SET_DUMPABLE, 1);
    tell("host name space of a user", unshare(CLONE_NEWUTS));
    tell("mounts of a user", unshare(CLONE_NEWNS));
    tell("first map", put("/proc/self/uid_map", "0 1000 1"));
    show("/proc/self/uid_map");
    compare(getpid());
    pid_t pid = fork();
    if (!pid) {
        tell("unshare", unshare(CLONE_NEWUSER | CLONE_NEWUTS | CLONE_NEWNS));
        inside();
        exit(0);
    }
    printf("%d\n", finish(pid));
    /* A map that the parent writes, at once; and its files. */
    pid = syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWUTS | CLONE_NEWNS | SIGCHLD, NULL, NULL, NULL, NULL);
    if (!pid) {
        hear(go);
        ids("by the parent's map");
        tell("host name", sethostname("inside", 6));
        say(ready);
        hear(go);
        exit(0);
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/setgroups", pid);
    tell("deny", put(path, "deny"));
    snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
    tell("groups", put(path, "1000 1000 1"));
    snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
    tell("users", put(path, "1000 1000 1"));
    say(go);
    hear(ready);
    compare(pid);
    snprintf(path, sizeof path, "/proc/%d/ns/uts", pid);
    int uts = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    int users = open(path, O_RDONLY | O_CLOEXEC);
    say(go);
    printf("%d\n", finish(pid));
    /* Its name spaces live as long as their files. */
    tell("uts alone", setns(uts, CLONE_NEWUTS));
    tell("not that kind", setns(users, CLONE_NEWUTS));
    tell("user", setns(users, CLONE_NEWUSER));
    tell("uts", setns(uts, 0));
    host("come in");
    ids("come in");
    tell("user again", setns(users, 0));
    exit(0);
}

int main(void) {
    setbuf(stdout, NULL);
    // What ran before may have changed it for all of the user's.
    setpriority(PRIO_PROCESS, 0, 0);
    if (pipe(go) || pipe(ready)) return 1;
    mkdir("/root", 0700);
    close(open("/root/secret", O_CREAT | O_WRONLY, 0600));
    close(open("/tmp/users", O_CREAT | O_WRONLY, 0644));
    if (chown("/tmp/users", 1000, 1000)) return 2;
    pid_t pid = fork();
    if (!pid) user();
    printf("%d\n", finish(pid));
    host("outside");
    /* Root's: any ids, and another who cannot be reached. */
    pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (!pid) {
        hear(go);
        ids("of root");
        tell("become 3", setresgid(3, 3, 3) | setresuid(3, 3, 3));
        ids("as 3");
        tell("host name", sethostname("inside", 6));
        exit(0);
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
    tell("overlap", put(path, "0 100000 10\n5 0 1\n"));
    tell("users", put(path, "0 100000 10\n"));
    snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
    tell("groups", put(path, "0 100000 10\n"));
    say(go);
    printf("%d\n", finish(pid));
    tell("setns of no name space", setns(go[0], 0));
    tell("setns of nothing", setns(99, 0));
    tell("own", setns(open("/proc/self/ns/uts", O_RDONLY), CLONE_NEWUTS));
    unlink("/root/secret");
    unlink("/tmp/users");
    return 0;
}
