/* Signals interrupt waits and nothing else: not what can be done at once, and not the wait for a child that has ended. Handlers without SA_RESTART. cairn-test: cores=4 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t caught, disturbed;
static void note(int signal) {
    caught++;
    disturbed += signal == SIGUSR1;
}

/* A child that sends signals without end. */
static pid_t disturber(void) {
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        for (;;) {
            kill(parent, SIGUSR1);
            usleep(200);
        }
    }
    return pid;
}

int main(void) {
    setbuf(stdout, NULL);
    struct sigaction action = {.sa_handler = note};
    sigaction(SIGUSR1, &action, NULL);
    char name[] = "/tmp/interrupted-XXXXXX", bytes[3000];
    memset(bytes, 7, sizeof bytes);
    int fd = mkstemp(name), p[2];
    if (fd < 0 || pipe(p) < 0) {
        puts("set-up failed");
        return 1;
    }
    pid_t pid = disturber();
    long failed = 0, rounds = 0;
    /* Until enough signals came, at whatever moment. */
    while (caught < 300 || rounds < 300) {
        struct stat status;
        int other = open(name, O_RDONLY);
        failed += other < 0;
        failed += pwrite(fd, bytes, sizeof bytes, 0) != sizeof bytes;
        failed += pwrite(fd, bytes, 8, 100) != 8;
        failed += pread(other, bytes, sizeof bytes, 0) != sizeof bytes;
        failed += pread(other, bytes, 5, 17) != 5;
        failed += stat(name, &status) != 0 || status.st_size != sizeof bytes;
        /* A pipe that has room, and one that has something. */
        failed += write(p[1], bytes, 100) != 100;
        failed += read(p[0], bytes, 100) != 100;
        failed += write(p[1], bytes, 4) != 4;
        failed += read(p[0], bytes, 4) != 4;
        failed += close(other) != 0;
        rounds++;
    }
    printf("what need not wait: %ld failed\n", failed);
    /* A wait is interrupted. */
    long n = read(p[0], bytes, 1);
    printf("a read of nothing: %s\n", n < 0 ? strerror(errno) : "something");
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }

    caught = 0;
    disturbed = 0;
    sigaction(SIGCHLD, &action, NULL);
    long interrupted = 0, late = 0;
    for (int i = 0; i < 300; i++) {
        sig_atomic_t before = caught;
        pid = fork();
        if (pid == 0) {
            _exit(i & 127);
        }
        int status = 0;
        pid_t got = waitpid(pid, &status, 0);
        interrupted += got != pid || WEXITSTATUS(status) != (i & 127);
        /* The handler has run by now. */
        if (caught != before + 1) {
            late++;
            printf("round %d: %d signals, %d from the one that is dead\n", i, caught - before, disturbed);
        }
    }
    printf("waits for a child: %ld interrupted, %ld signals late\n", interrupted, late);
    unlink(name);
    return 0;
}
