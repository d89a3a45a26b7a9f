/* The owner of a file and its signal (F_SETOWN, F_SETSIG) are the open file's: the next one that is opened has none. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void tell(const char *what, int file) {
    int owner = fcntl(file, F_GETOWN);
    printf("%s: owner %s, signal %d, asynchronous %d\n", what, owner == 0 ? "none" : owner == getpid() ? "this" : "another", fcntl(file, F_GETSIG),
           (fcntl(file, F_GETFL) & O_ASYNC) != 0);
}

int main(void) {
    const char *const name = "/tmp/file-owners";
    for (int i = 0; i < 4; i++) {
        int file = open(name, O_RDWR | O_CREAT, 0600);
        tell("opened", file);
        if (i != 1) {
            fcntl(file, F_SETOWN, getpid());
        }
        if (i != 2) {
            fcntl(file, F_SETSIG, SIGUSR1);
        }
        int copy = dup(file);
        close(file);
        tell("its copy", copy);
        close(copy);
    }
    unlink(name);
    return 0;
}
