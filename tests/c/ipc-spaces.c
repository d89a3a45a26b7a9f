/* IPC name spaces: System V and POSIX things of one are nobody's in another, and go with it. As root, and as an ordinary user in a user name space; setns(2) by a file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY 0x5ace

static void tell(const char *what, int result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "done");
}

static void look(const char *where) {
    printf("%s\n", where);
    tell(" segment", shmget(KEY, 0, 0));
    tell(" queue", msgget(KEY, 0));
    tell(" set", semget(KEY, 0, 0));
    tell(" posix", mq_open("/spaces", O_RDONLY));
}

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) tell(path, -1);
    close(fd);
}

static void make(void) {
    int id = shmget(KEY, 4096, IPC_CREAT | 0600);
    char *at = shmat(id, NULL, 0);
    if (at != (void *)-1) strcpy(at, "inside");
    tell(" segment", id);
    tell(" queue", msgget(KEY, IPC_CREAT | 0600));
    tell(" set", semget(KEY, 1, IPC_CREAT | 0600));
    tell(" posix", mq_open("/spaces", O_CREAT | O_RDONLY, 0600, NULL));
}

static void tests(const char *who, int flags) {
    int go[2], ready[2];
    char c;
    printf("-- %s\n", who);
    if (pipe(go) || pipe(ready)) return;
    printf("make outside\n");
    make();
    pid_t pid = fork();
    if (!pid) {
        tell("unshare", unshare(CLONE_NEWIPC | flags));
        if (flags) {
            put("/proc/self/setgroups", "deny");
            put("/proc/self/gid_map", "1000 1000 1");
            put("/proc/self/uid_map", "1000 1000 1");
        }
        look("inside");
        printf("make inside\n");
        make();
        if (write(ready[1], "x", 1) != 1 || read(go[0], &c, 1) != 1) _exit(1);
        pid = fork();
        if (!pid) {
            look("a child's");
            _exit(0);
        }
        waitpid(pid, NULL, 0);
        _exit(0);
    }
    if (read(ready[0], &c, 1) != 1) return;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/ipc", pid);
    int file = open(path, O_RDONLY);
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    int user = open(path, O_RDONLY);
    shmctl(shmget(KEY, 0, 0), IPC_RMID, NULL);
    look("outside");
    if (write(go[1], "x", 1) != 1) return;
    waitpid(pid, NULL, 0);
    pid = fork();
    if (!pid) {
        if (flags) tell("come in as well", setns(user, 0));
        tell("come in", setns(file, CLONE_NEWIPC));
        look("come in");
        char *at = shmat(shmget(KEY, 0, 0), NULL, SHM_RDONLY);
        printf("it says %s\n", at == (void *)-1 ? strerror(errno) : at);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    msgctl(msgget(KEY, 0), IPC_RMID, NULL);
    semctl(semget(KEY, 0, 0), 0, IPC_RMID);
    mq_unlink("/spaces");
    look("removed");
}

int main(void) {
    setbuf(stdout, NULL);
    tests("root", 0);
    pid_t pid = fork();
    if (!pid) {
        if (setgid(1000) || setuid(1000)) return 2;
        prctl(PR_SET_DUMPABLE, 1);
        tell("a user", unshare(CLONE_NEWIPC));
        tests("user", CLONE_NEWUSER);
        return 0;
    }
    waitpid(pid, NULL, 0);
    return 0;
}
