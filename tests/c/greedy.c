/* As user 1000: a program that takes all memory, eight of them at once, shared memory that children touch and end, and forks without end. Root's program beside them goes on, and nothing of root's or of user 1001's ends. (Linux ends innocents and root's shell over the shared memory.)
 * cairn-test: mem=256M limit=300 linux=no */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20, BYSTANDER = 4 * MIB };

static void become(int uid) {
    if (setgroups(0, NULL) || setgid(uid) || setuid(uid)) {
        perror("setuid");
        _exit(1);
    }
}

/* Takes memory until it is ended. */
static void hog(void) {
    for (;;) {
        char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) {
            _exit(9);
        }
        memset(p, 1, MIB);
    }
}

/* Children fill the parent's shared memory and end; the parent has touched nothing. */
static void leave_it_to_children(void) {
    for (;;) {
        char *p = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) {
            _exit(9);
        }
        pid_t child = fork();
        if (child == 0) {
            memset(p, 1, 16 * MIB);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

/* Forks as often as it can, until nothing more comes; each copy writes a little. */
static void bomb(void) {
    int made = 0;
    for (int failed = 0; failed < 20 && made < 5000;) {
        pid_t child = fork();
        if (child == 0) {
            static char own[64 * 1024];
            memset(own, 1, sizeof own);
            pause();
            _exit(0);
        }
        if (child < 0) {
            failed++;
            usleep(1000);
        } else {
            made++;
        }
    }
    kill(0, SIGKILL);
}

static pid_t as_user(void (*what)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        become(1000);
        what();
        _exit(0);
    }
    setpgid(pid, pid);
    return pid;
}

/* Somebody who has a little memory, and uses it all the time until told to end. */
static volatile sig_atomic_t ends;
static void on_term(int number) {
    (void)number;
    ends = 1;
}

static pid_t bystander(int uid) {
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGTERM, on_term);
        become(uid);
        char *p = mmap(NULL, BYSTANDER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(p, 7, BYSTANDER);
        for (int at = 0; !ends; at = (at + 4096) % BYSTANDER) {
            if (p[at] != 7) {
                _exit(2);
            }
            if (at == 0) {
                usleep(5000);
            }
        }
        _exit(5);
    }
    return pid;
}

static void root_works(const char *when) {
    /* Programs start, and there is memory for them. */
    pid_t pid = fork();
    if (pid == 0) {
        char *p = malloc(MIB);
        memset(p, 1, MIB);
        int both[2];
        _exit(pipe(both) || write(both[1], p, 100) != 100 || read(both[0], p, 100) != 100);
    }
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        printf("%s: root's program could not work: %x\n", when, status);
        exit(1);
    }
}

static void storm(const char *name, void (*what)(void), int count) {
    pid_t all[8];
    for (int i = 0; i < count; i++) {
        all[i] = as_user(what);
    }
    for (int i = 0; i < 20; i++) {
        root_works(name);
        usleep(10000);
    }
    for (int i = 0; i < count; i++) {
        int status = 0;
        waitpid(all[i], &status, 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
            printf("%s: it ended with %x, not by SIGKILL\n", name, status);
            exit(1);
        }
        kill(-all[i], SIGKILL);
    }
    root_works(name);
    printf("%s: over\n", name);
}

int main(void) {
    setbuf(stdout, NULL);
    pid_t calm[] = {bystander(0), bystander(1001)};
    storm("a hog", hog, 1);
    storm("eight hogs", hog, 8);
    storm("shared memory", leave_it_to_children, 1);
    storm("forks", bomb, 1);
    for (int i = 0; i < 2; i++) {
        int status;
        kill(calm[i], SIGTERM);
        waitpid(calm[i], &status, 0);
        if (status != 5 << 8) {
            printf("bystander %d ended with %x\n", i, status);
            return 1;
        }
    }
    return 0;
}
