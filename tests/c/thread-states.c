/* The states of threads in /proc/PID/task/TID/stat and status: of those that compute, wait in one way or another, and ask; of a process whose first thread waits, or has ended. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int ends[2];
static volatile int numbers[5];

static char state(const char *path) {
    char text[1024] = "";
    int fd = open(path, O_RDONLY);
    if (fd < 0) return '-';
    if (read(fd, text, sizeof text - 1) < 0) text[0] = 0;
    close(fd);
    char *end = strrchr(text, ')');
    return end && strlen(end) > 2 ? end[2] : '?';
}

static char of_thread(int pid, int tid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, tid);
    return state(path);
}

/* It gets there sooner or later. */
static char comes(int pid, int tid, char wanted) {
    char now = 0;
    for (int turn = 0; turn < 400; turn++) {
        now = of_thread(pid, tid);
        if (now == wanted) break;
        usleep(5000);
    }
    return now;
}

static void *waits(void *how) {
    long which = (long)how;
    numbers[which] = gettid();
    char byte;
    switch (which) {
    case 0:
        for (;;) numbers[4]++;
    case 1:
        pthread_mutex_lock(&mutex);
        pthread_cond_wait(&never, &mutex);
        break;
    case 2:
        if (read(ends[0], &byte, 1) < 0) perror("read");
        break;
    case 3:
        poll(0, 0, -1);
    }
    return 0;
}

static void *asks(void *first) {
    /* The first thread waits for this one. */
    printf("the first, from another: %c\n", comes(getpid(), getpid(), 'S'));
    printf("the process, from another: %c\n", state("/proc/self/stat"));
    printf("itself: %c %c\n", state("/proc/thread-self/stat"), of_thread(getpid(), gettid()));
    return first;
}

static void *stays(void *told) {
    char first = 0;
    for (int turn = 0; turn < 400 && first != 'Z'; turn++) {
        usleep(5000);
        first = of_thread(getpid(), getpid());
    }
    printf("the first has ended: %c, the process %c, itself %c\n", first, state("/proc/self/stat"), state("/proc/thread-self/stat"));
    fflush(stdout);
    _exit(told != 0);
}

int main(void) {
    pthread_t thread;
    if (pipe(ends)) return 1;
    for (long which = 0; which < 4; which++) {
        pthread_create(&thread, 0, waits, (void *)which);
        while (!numbers[which]) usleep(1000);
    }
    const char *names[] = {"computes", "waits for a condition", "reads", "polls"};
    for (int which = 0; which < 4; which++) {
        char wanted = which ? 'S' : 'R';
        printf("%s: %c\n", names[which], comes(getpid(), numbers[which], wanted));
    }
    printf("itself: %c %c\n", state("/proc/self/stat"), of_thread(getpid(), getpid()));
    pthread_create(&thread, 0, asks, 0);
    pthread_join(thread, 0);
    fflush(stdout);
    /* Seen by a child: the first thread waits for it, another one computes. */
    pid_t child = fork();
    if (!child) {
        int parent = getppid();
        printf("the parent: %c, what computes there: %c\n", comes(parent, parent, 'S'), comes(parent, numbers[0], 'R'));
        printf("what reads there: %c, itself: %c\n", of_thread(parent, numbers[2]), state("/proc/self/stat"));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, 0, 0);
    child = fork();
    if (!child) {
        pthread_create(&thread, 0, stays, 0);
        pthread_exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("it ended: %d\n", status);
    fflush(stdout);
    /* Stopped: all of it. */
    child = fork();
    if (!child) {
        pthread_create(&thread, 0, waits, (void *)3);
        for (;;) pause();
    }
    usleep(50000);
    kill(child, SIGSTOP);
    waitpid(child, 0, WUNTRACED);
    printf("stopped: %c\n", of_thread(child, child));
    kill(child, SIGKILL);
    siginfo_t how;
    waitid(P_PID, child, &how, WEXITED | WNOWAIT);
    printf("not waited for: %c\n", of_thread(child, child));
    waitpid(child, 0, 0);
    fflush(stdout);
    _exit(0);
}
