/* Many processes: a thousand one after the other, five hundred at once, a deep chain, orphans. cairn-test: cores=4 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int in_a_row(int count) {
    int good = 0;
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            _exit(i % 200);
        }
        int status;
        good += pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == i % 200;
    }
    return good;
}

static int at_once(int count) {
    static pid_t children[2000];
    int live = 0, gone = 0;
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (;;) {
                pause();
            }
        }
        if (pid < 0) {
            printf("fork %d: %s\n", i, strerror(errno));
            break;
        }
        children[live++] = pid;
    }
    for (int i = 0; i < live; i++) {
        kill(children[i], i % 2 ? SIGTERM : SIGKILL);
    }
    for (int i = 0; i < live; i++) {
        int status;
        gone += waitpid(children[i], &status, 0) == children[i] && WIFSIGNALED(status) && WTERMSIG(status) == (i % 2 ? SIGTERM : SIGKILL);
    }
    printf("at once: %d live, %d killed, then %s\n", live, gone, waitpid(-1, NULL, 0) < 0 && errno == ECHILD ? "none" : "some");
    return live == count && gone == count;
}

static int chain(int depth) {
    if (depth == 0) {
        return 42;
    }
    pid_t pid = fork();
    if (pid == 0) {
        _exit(chain(depth - 1));
    }
    int status;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void orphan(void) {
    int p[2];
    if (pipe(p) < 0) {
        return;
    }
    if (fork() == 0) {
        pid_t parent = getpid();
        if (fork() == 0) {
            while (getppid() == parent) {
                usleep(1000);
            }
            char c = getppid() == 1 ? 'y' : 'n';
            _exit(write(p[1], &c, 1) != 1);
        }
        usleep(20000);
        _exit(0);
    }
    wait(NULL);
    char c = '?';
    if (read(p[0], &c, 1) == 1) {
        printf("orphan adopted by 1: %c\n", c);
    }
}

int main(void) {
    setbuf(stdout, NULL);
    printf("in a row: %d\n", in_a_row(1000));
    int ok = at_once(500);
    printf("chain: %d\n", chain(40));
    orphan();
    return ok ? 0 : 1;
}
