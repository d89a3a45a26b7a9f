/* Processes that are killed at any moment of making, entering and changing name spaces leave nothing: as many name spaces can be made afterwards as before, and as much memory is free. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { USER = 4321, ROUNDS = 120, HELD = 600, STACK = 65536 };
static const int all = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;

static void becomes_user(void) {
    if (setresgid(USER, USER, USER) || setresuid(USER, USER, USER)) _exit(99);
}

/* How many name spaces the user can hold at once. */
static int most(void) {
    int ends[2], count = 0;
    if (pipe(ends)) return -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit files = {1024, 1024};
        setrlimit(RLIMIT_NOFILE, &files);
        becomes_user();
        if (unshare(CLONE_NEWUSER) == 0)
            while (count < HELD && unshare(CLONE_NEWUTS) == 0 && open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC) >= 0) count++;
        _exit(write(ends[1], &count, sizeof count) != sizeof count);
    }
    close(ends[1]);
    if (read(ends[0], &count, sizeof count) != sizeof count) count = -1;
    close(ends[0]);
    waitpid(child, NULL, 0);
    return count;
}
static long free_memory(void) {
    char line[128];
    long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "MemAvailable: %ld", &kib);
    if (file) fclose(file);
    return kib;
}

static int nothing(void *unused) {
    for (;;) pause();
    return unused != NULL;
}
/* All that can be done with name spaces, again and again, in a child that makes children. */
static void works(const char *place) {
    static char stack[2][STACK];
    char old[128], path[128];
    for (int round = 0;; round++) {
        if (unshare(all)) break;
        if (fork() != 0) {
            /* The one who is left out enters what its child is in. */
            static const char *const kinds[] = {"user", "uts", "ipc", "pid_for_children"};
            for (int i = 0; i < 4; i++) {
                snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i]);
                int fd = open(path, O_RDONLY | O_CLOEXEC);
                setns(fd, 0);
                close(fd);
            }
            pause();
        }
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
        mount("tmpfs", place, "tmpfs", 0, NULL);
        snprintf(old, sizeof old, "%s/old", place);
        mkdir(old, 0700);
        sethostname("inside", 6);
        syscall(SYS_pivot_root, place, old);
        if (chdir("/") == 0) umount2("/old", MNT_DETACH);
        clone(nothing, stack[0] + STACK, CLONE_NEWIPC | CLONE_NEWUTS | SIGCHLD, NULL);
        clone(nothing, stack[1] + STACK, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, NULL);
        place = "/";
    }
    pause();
}

int main(void) {
    alarm(120);
    setvbuf(stdout, NULL, _IOLBF, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    char place[] = "/tmp/spaces-dyingXXXXXX";
    if (!mkdtemp(place) || chmod(place, 0777)) return 1;
    int before = most(), again = most();
    printf("%s\n", before > 100 && again == before ? "some" : "none");
    long had = 0;
    for (int round = 0; round < ROUNDS; round++) {
        /* What is kept for the next is there after the first ones. */
        if (round == ROUNDS / 3) had = free_memory();
        srandom(round);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            setpgid(0, 0);
            becomes_user();
            works(place);
            _exit(0);
        }
        setpgid(child, child);
        struct timespec time = {0, random() % 12000000};
        nanosleep(&time, NULL);
        for (int waits = 0;; waits++) {
            if (kill(-child, SIGKILL) && errno == ESRCH) break;
            if (waitpid(-1, NULL, 0) < 0) break;
        }
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
    }
    while (wait(NULL) > 0) {
    }
    int after = 0;
    for (int i = 0; i < 100 && (after = most()) != before; i++) usleep(20000);
    if (after != before) printf("%d name spaces, before %d\n", after, before);
    long lost = 0;
    for (int i = 0; i < 50 && (lost = had - free_memory()) > 4096; i++) usleep(20000);
    if (lost > 4096) printf("%ld KiB are lost\n", lost);
    rmdir(place);
    puts("over");
    return 0;
}
