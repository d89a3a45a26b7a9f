/* Many processes have record locks in files of many servers, each of which waits for their ends; others are made all the same. As user 1000. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOCKERS 150
#define OTHERS 100

static void lock(int fd) {
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    fcntl(fd, F_SETLK, &lock);
}

int main(void) {
    char name[] = "/tmp/many-lockers-XXXXXX";
    int pair[2], ends[2], told[2];
    if (pipe(ends) || pipe(told) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
    int fds[] = {mkstemp(name), ends[0], pair[0], eventfd(0, 0), open("/dev/null", O_RDONLY), open("/proc/version", O_RDONLY),
                 open("/proc/self/status", O_RDONLY), open("/sys", O_RDONLY), open("/dev/ptmx", O_RDWR | O_NOCTTY)};
    pid_t lockers[LOCKERS];
    for (int i = 0; i < LOCKERS; i++) {
        lockers[i] = fork();
        if (lockers[i] < 0) return perror("fork of a locker"), 1;
        if (lockers[i] == 0) {
            if (setgid(1000) || setuid(1000)) _exit(1);
            for (unsigned at = 0; at < sizeof fds / sizeof *fds; at++) lock(fds[at]);
            (void)!write(told[1], "x", 1);
            pause();
        }
        char byte;
        if (read(told[0], &byte, 1) != 1) return 1;
    }
    int made = 0;
    pid_t others[OTHERS];
    for (int i = 0; i < OTHERS; i++) {
        others[i] = fork();
        if (others[i] == 0) pause();
        made += others[i] > 0;
    }
    printf("beside %d lockers %d others\n", LOCKERS, made);
    for (int i = 0; i < OTHERS; i++) if (others[i] > 0) kill(others[i], SIGKILL);
    for (int i = 0; i < LOCKERS; i++) kill(lockers[i], SIGKILL);
    while (wait(0) > 0) {}
    unlink(name);
    return 0;
}
