/* What all pipes of an ordinary user can hold together is limited as on Linux (pipe-user-pages-soft): beyond it new ones hold two pages, and none gets larger. Nobody else notices. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int ends[1100][2];

static void tell(const char *what, int result) {
    printf("%s: %d%s%s\n", what, result, result < 0 ? " " : "", result < 0 ? strerror(errno) : "");
}

static int user(int uid) {
    pid_t child = fork();
    if (child != 0) {
        int status = 0;
        waitpid(child, &status, 0);
        return status;
    }
    if (setgid(uid) != 0 || setuid(uid) != 0) {
        _exit(1);
    }
    int count = 0;
    while (count < 1026 && pipe2(ends[count], O_NONBLOCK) == 0) {
        count++;
    }
    tell("pipes", count);
    for (int i = 0; i < count; i++) {
        int size = fcntl(ends[i][0], F_GETPIPE_SZ);
        if (i == 0 || size != fcntl(ends[i - 1][0], F_GETPIPE_SZ)) {
            printf("from pipe %d on: %d bytes\n", i + 1, size);
        }
    }
    tell("the first one larger", fcntl(ends[0][0], F_SETPIPE_SZ, 1 << 17));
    tell("the last one larger", fcntl(ends[count - 1][0], F_SETPIPE_SZ, 16384));
    tell("the first one smaller", fcntl(ends[0][0], F_SETPIPE_SZ, 4096));
    tell("and larger again", fcntl(ends[0][0], F_SETPIPE_SZ, 65536));
    tell("the last one's size", fcntl(ends[count - 1][1], F_GETPIPE_SZ));
    char block[20000] = {0};
    tell("writing to the last one", write(ends[count - 1][1], block, sizeof block));
    for (int i = 0; i < 40; i++) {
        close(ends[i][0]);
        close(ends[i][1]);
    }
    tell("with fewer, the last one larger", fcntl(ends[count - 1][0], F_SETPIPE_SZ, 131072));
    tell("a new one", pipe(ends[0]));
    tell("its size", fcntl(ends[0][0], F_GETPIPE_SZ));
    fflush(stdout);
    _exit(0);
}

int main(void) {
    struct rlimit files = {4096, 4096};
    tell("setrlimit", setrlimit(RLIMIT_NOFILE, &files));
    fflush(stdout);
    tell("user 1000 ended with", user(1000));
    fflush(stdout);
    tell("user 1001 ended with", user(1001));
    int count = 0;
    while (count < 1100 && pipe(ends[count]) == 0) {
        count++;
    }
    tell("pipes of user 0", count);
    tell("the last one's size", fcntl(ends[count - 1][0], F_GETPIPE_SZ));
    tell("no pipe", fcntl(open("/dev/null", O_RDWR), F_SETPIPE_SZ, 4096));
    tell("larger", fcntl(ends[count - 1][0], F_SETPIPE_SZ, 1 << 20));
    return 0;
}
