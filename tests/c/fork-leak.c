/* Fifteen hundred forks, execs and exits, and as many children that share memory until they execute, leave no memory behind: free memory, from /proc/meminfo, after each of three equal rounds. A leak is in every round; a
   server whose heap grows by a step (64 KiB in vm's, which looks at what programs write and ask for anew only every so many forks) does it in one. (Cairn only: Linux caches.) */
/* cairn-test: linux=no */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static long free_kib(void) {
    char line[128];
    long kib = -1;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "MemFree: %ld", &kib) == 1) {
            break;
        }
    }
    if (f) {
        fclose(f);
    }
    return kib;
}

static void spawn(char **argv, int exec) {
    pid_t pid = fork();
    if (pid == 0) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(p, 1, 1 << 18);
        if (exec) {
            execl(argv[0], argv[0], "--child", (char *)NULL);
        }
        _exit(0);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        puts("fork failed");
        exit(1);
    }
}

/* A child that shares memory: some execute with little, some with much, some find nothing to execute. */
static void share(char **argv, int how) {
    static char much[100000];
    memset(much, 'm', sizeof much - 1);
    char *const arguments[] = {argv[0], "--child", how % 50 == 1 ? much : NULL, NULL};
    const char *path = how % 10 == 2 ? "/no/such/program" : argv[0];
    pid_t pid = vfork();
    if (pid == 0) {
        execv(path, arguments);
        _exit(0);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        puts("vfork failed");
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc >= 2 && strcmp(argv[1], "--child") == 0) {
        return 0;
    }
    int set = epoll_create1(0), ends[2];
    struct epoll_event event = {.events = EPOLLIN};
    if (pipe(ends) < 0 || epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event) < 0) {
        puts("epoll failed");
        return 1;
    }
    for (int i = 0; i < 100; i++) {
        spawn(argv, i % 4 == 0);
        share(argv, i);
    }
    long least = -1, free = free_kib();
    for (int round = 0; round < 3; round++) {
        long before = free;
        for (int i = 0; i < 500; i++) {
            spawn(argv, i % 4 == 0);
            share(argv, i);
        }
        free = free_kib();
        if (before < 0 || free < 0) {
            puts("no MemFree in /proc/meminfo");
            return 1;
        }
        if (round == 0 || before - free < least) {
            least = before - free;
        }
    }
    /* Allow a few pages: what is copied at once, and what servers keep, differs from child to child. */
    printf("leak: %s\n", least <= 16 ? "none" : "yes");
    if (least > 16) {
        printf("each round of 1,000 children takes %ld KiB or more\n", least);
        return 1;
    }
    return 0;
}
