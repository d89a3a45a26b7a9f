/* What /proc shows of a process to others: by user, group, saved ids and dumpable; through names, and through a folder that was opened while there were more rights. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const FILES[] = {"maps", "environ", "personality", "stat", "statm", "status", "cmdline", "comm", "limits", "mountinfo"};
#define COUNT(list) (sizeof(list) / sizeof *(list))

static const char *outcome(long result) {
    return result >= 0 ? "yes" : errno == EACCES ? "no" : strerror(errno);
}

static void open_at(int dir, const char *name, int flags) {
    int fd = openat(dir, name, flags);
    printf(" %s %s", name, outcome(fd));
    if (fd >= 0)
        close(fd);
}

static void look(const char *who, const char *at, int dir) {
    char target[256];
    struct stat st;
    printf("%s at %s:", who, at);
    for (size_t i = 0; i < COUNT(FILES); i++)
        open_at(dir, FILES[i], O_RDONLY);
    open_at(dir, "fd", O_RDONLY | O_DIRECTORY);
    open_at(dir, "task", O_RDONLY | O_DIRECTORY);
    printf(" exe %s", outcome(readlinkat(dir, "exe", target, sizeof target)));
    printf(" root %s", outcome(readlinkat(dir, "root", target, sizeof target)));
    open_at(dir, "exe", O_RDONLY);
    printf(" stat-exe %s", outcome(fstatat(dir, "exe", &st, 0)));
    printf(" lstat-exe %s\n", outcome(fstatat(dir, "exe", &st, AT_SYMLINK_NOFOLLOW)));
    fflush(stdout);
}

struct victim {
    const char *name;
    unsigned real, effective, saved, group;
    int dumpable;
    pid_t pid;
    int dir;
};

static struct victim victims[] = {
    {"its own kind", 1000, 1000, 1000, 1000, 1, 0, -1},
    {"not dumpable", 1000, 1000, 1000, 1000, 0, 0, -1},
    {"saved another", 1000, 1000, 2000, 1000, 1, 0, -1},
    {"real another", 2000, 1000, 1000, 1000, 1, 0, -1},
    {"group another", 1000, 1000, 1000, 2000, 1, 0, -1},
    {"another user", 2000, 2000, 2000, 2000, 1, 0, -1},
    {"root", 0, 0, 0, 0, 1, 0, -1},
};

static void become(unsigned real, unsigned effective, unsigned saved, unsigned group) {
    if (setresgid(group, group, group) || setresuid(real, effective, saved))
        exit(9);
}

static void begin(struct victim *victim) {
    int ready[2];
    char byte;
    if (pipe(ready))
        exit(9);
    victim->pid = fork();
    if (victim->pid == 0) {
        become(victim->real, victim->effective, victim->saved, victim->group);
        prctl(PR_SET_DUMPABLE, victim->dumpable);
        close(ready[0]);
        close(ready[1]);
        for (;;)
            pause();
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 0)
        exit(9);
    close(ready[0]);
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d", victim->pid);
    victim->dir = open(path, O_RDONLY | O_DIRECTORY);
    printf("%s: owners", victim->name);
    static const char *const OWNED[] = {".", "task", "stat", "maps", "fd", "exe"};
    for (size_t i = 0; i < COUNT(OWNED); i++) {
        if (fstatat(victim->dir, OWNED[i], &st, AT_SYMLINK_NOFOLLOW))
            st.st_uid = st.st_gid = 99;
        printf(" %s %u:%u", OWNED[i], st.st_uid, st.st_gid);
    }
    printf("\n");
    fflush(stdout);
}

static void attack(const char *who, unsigned uid, unsigned gid) {
    pid_t pid = fork();
    if (pid == 0) {
        become(uid, uid, uid, gid);
        for (size_t i = 0; i < COUNT(victims); i++) {
            char path[64];
            look(who, victims[i].name, victims[i].dir);
            snprintf(path, sizeof path, "/proc/%d/task/%d", victims[i].pid, victims[i].pid);
            int dir = open(path, O_RDONLY | O_DIRECTORY);
            printf("by thread:");
            open_at(dir, "maps", O_RDONLY);
            open_at(dir, "environ", O_RDONLY);
            open_at(dir, "stat", O_RDONLY);
            printf("\n");
        }
        /* Of itself everything but what belongs to root now. */
        printf("itself: %s %s %d\n", outcome(open("/proc/self/maps", O_RDONLY)), outcome(open("/proc/thread-self/maps", O_RDONLY)), prctl(PR_GET_DUMPABLE));
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, 0, 0);
}

int main(int argc, char **argv) {
    setvbuf(stdout, 0, _IOLBF, 4096);
    if (argc > 1) {
        printf("%s: dumpable %d\n", argv[1], prctl(PR_GET_DUMPABLE));
        return 0;
    }
    for (size_t i = 0; i < COUNT(victims); i++)
        begin(&victims[i]);
    attack("user", 1000, 1000);
    attack("root", 0, 0);
    int early = -1;
    char first[16];
    if (fork() == 0) {
        /* What was opened with rights can be read without them. */
        early = open("/proc/1/maps", O_RDONLY);
        become(1000, 1000, 1000, 1000);
        printf("opened before: %s\n", read(early, first, sizeof first) > 0 ? "read" : "nothing");
        look("user", "1", open("/proc/1", O_RDONLY | O_DIRECTORY));
        return 0;
    }
    wait(0);
    if (fork() == 0) {
        printf("dumpable %d", prctl(PR_GET_DUMPABLE));
        if (setresuid(-1, 1000, -1))
            return 9;
        printf(", other effective user %d", prctl(PR_GET_DUMPABLE));
        if (setresuid(1000, 1000, 1000))
            return 9;
        printf(", set %d", prctl(PR_SET_DUMPABLE, 1));
        printf(" %d\n", prctl(PR_GET_DUMPABLE));
        execl("/proc/self/exe", "self", "after exec", (char *)0);
        return 9;
    }
    wait(0);
    if (fork() == 0) {
        if (setresuid(1000, 2000, 2000))
            return 9;
        execl("/proc/self/exe", "self", "exec as another", (char *)0);
        return 9;
    }
    wait(0);
    for (size_t i = 0; i < COUNT(victims); i++) {
        kill(victims[i].pid, SIGKILL);
        waitpid(victims[i].pid, 0, 0);
    }
    printf("end\n");
    return 0;
}
