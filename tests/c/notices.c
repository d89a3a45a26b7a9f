/* No signal is forgotten, wherever its thread is when it comes: short reads and writes, long ones, at servers that others keep busy. cairn-test: cores=4 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 1500, BUSY = 2 };

static struct {
    volatile long handled, forgotten;
    volatile int over;
} *shared;

static void note(int signal) {
    (void)signal;
    shared->handled++;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* Keeps the server of pipes busy. */
static pid_t busy(void) {
    pid_t pid = fork();
    if (pid == 0) {
        static char bytes[4096];
        int p[2];
        if (pipe(p) < 0) {
            _exit(1);
        }
        for (;;) {
            if (write(p[1], bytes, sizeof bytes) < 0 || read(p[0], bytes, sizeof bytes) < 0) {
                _exit(1);
            }
        }
    }
    return pid;
}

/* Sends one signal after the other, the next when the last has been handled: one that was forgotten stays so, since nothing reminds of it. */
static pid_t sender(void) {
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        for (int i = 0; i < ROUNDS && !shared->forgotten; i++) {
            long before = shared->handled;
            double start = now();
            kill(parent, SIGUSR1);
            while (shared->handled == before && now() - start < 10) {
                usleep(20);
            }
            shared->forgotten += shared->handled == before;
        }
        shared->over = 1;
        _exit(0);
    }
    return pid;
}

int main(void) {
    setbuf(stdout, NULL);
    struct sigaction action = {.sa_handler = note};
    sigaction(SIGUSR1, &action, NULL);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char bytes[100] = "";
    int p[2];
    if (shared == MAP_FAILED || pipe(p) < 0) {
        puts("set-up failed");
        return 1;
    }
    pid_t others[BUSY];
    for (int i = 0; i < BUSY; i++) {
        others[i] = busy();
    }
    pid_t pid = sender();
    long failed = 0;
    while (!shared->over) {
        failed += write(p[1], bytes, 4) != 4;
        failed += read(p[0], bytes, 4) != 4;
        failed += write(p[1], bytes, sizeof bytes) != sizeof bytes;
        failed += read(p[0], bytes, sizeof bytes) != sizeof bytes;
    }
    while (waitpid(pid, NULL, 0) != pid) {
    }
    for (int i = 0; i < BUSY; i++) {
        kill(others[i], SIGKILL);
        waitpid(others[i], NULL, 0);
    }
    printf("%ld handled, %ld forgotten, %ld reads and writes failed\n", shared->handled, shared->forgotten, failed);
    return 0;
}
