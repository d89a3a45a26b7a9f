/* Record locks are a process's: they go when it is killed, although its child has the descriptor, stay over exec, and are not a child's. As user 1000. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int lock(int fd, int command, short type) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    return fcntl(fd, command, &lock);
}

static pid_t holder_of(int fd) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    if (fcntl(fd, F_GETLK, &lock) || lock.l_type == F_UNLCK) return 0;
    return lock.l_pid;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        /* What the holder became: it has the lock, and waits to be killed. */
        (void)!write(atoi(argv[1]), "x", 1);
        pause();
    }
    if (setgid(1000) || setuid(1000)) return 1;
    char name[] = "/tmp/lock-owner-XXXXXX";
    int fd = mkstemp(name), told[2], again[2];
    if (fd < 0 || pipe(told) || pipe(again)) return 1;
    pid_t holder = fork();
    if (holder == 0) {
        if (lock(fd, F_SETLK, F_WRLCK)) _exit(1);
        pid_t child = fork();
        if (child == 0) {
            /* It has the descriptor, and no lock. */
            if (lock(fd, F_SETLK, F_WRLCK) == 0) _exit(1);
            (void)!write(again[1], &(pid_t){getpid()}, sizeof(pid_t));
            pause();
        }
        char number[8];
        snprintf(number, sizeof number, "%d", told[1]);
        execl("/proc/self/exe", "holder", number, (char *)0);
        _exit(1);
    }
    char byte;
    pid_t child = 0;
    if (read(told[0], &byte, 1) != 1 || read(again[0], &child, sizeof child) != sizeof child) return 1;
    printf("held by the holder after exec: %d\n", holder_of(fd) == holder);
    printf("not to be had: %d\n", lock(fd, F_SETLK, F_WRLCK));
    kill(holder, SIGKILL);
    waitpid(holder, 0, 0);
    printf("free when it was killed: %d\n", lock(fd, F_SETLK, F_WRLCK));
    printf("held by: %d\n", (int)holder_of(fd));
    kill(child, SIGKILL);
    unlink(name);
    return 0;
}
