/* Names of threads: prctl(2), /proc/PID/comm and that of each task, pthread_setname_np(3). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_barrier_t step;
static pid_t number;

static void show(const char *what, const char *path) {
    char text[100] = {0};
    int fd = open(path, O_RDONLY);
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    printf("%s: %zd %s", what, length, length > 0 ? text : "\n");
}

static void say(const char *path, const char *name) {
    int fd = open(path, O_WRONLY);
    ssize_t written = write(fd, name, strlen(name));
    printf("%s: %zd %s\n", name, written, written < 0 ? strerror(errno) : "");
    close(fd);
}

static void own(const char *what) {
    char name[16] = {0};
    prctl(PR_GET_NAME, name);
    printf("%s: %s\n", what, name);
}

static void *other(void *unused) {
    number = syscall(SYS_gettid);
    own("as its maker");
    prctl(PR_SET_NAME, "a second thread of many");
    own("of its own");
    show("the process", "/proc/self/comm");
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", number);
    show("itself", path);
    int status;
    fflush(stdout);
    if (fork() == 0) {
        show("a child of it", "/proc/self/comm");
        fflush(stdout);
        _exit(0);
    }
    wait(&status);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    own("named by the other");
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    return unused;
}

int main(void) {
    pthread_t thread;
    char path[64];
    prctl(PR_SET_NAME, "the first");
    pthread_barrier_init(&step, NULL, 2);
    fflush(stdout);
    pthread_create(&thread, NULL, other, NULL);
    pthread_barrier_wait(&step);
    own("not changed");
    printf("%d\n", pthread_setname_np(thread, "from outside"));
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", number);
    show("its file", path);
    say(path, "by the file");
    show("its file", path);
    say("/proc/self/comm", "longer than a name may be\n");
    show("the process", "/proc/self/comm");
    show("its file", path);
    /* Nobody names another process. */
    say("/proc/1/comm", "stranger");
    pthread_barrier_wait(&step);
    pthread_join(thread, NULL);
    return 0;
}
