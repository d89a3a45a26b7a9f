/* A user has at most 8,192 record locks at one file server, over all processes and files: then ENOLCK, for him and for nobody else. (Cairn only: Linux has no such limit.) */
/* cairn-test: linux=no */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int lock(int fd, int type, long start, long length) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    return fcntl(fd, F_SETLK, &lock) ? errno : 0;
}

static void expect(const char *what, int got, int wanted) {
    if (got != wanted) {
        printf("%s: %s and not %s\n", what, strerror(got), strerror(wanted));
        exit(1);
    }
}

/* Ends with what `does` says, as this user. */
static void as(int user, int (*does)(int), int fd, const char *what, int wanted) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (setuid(user)) _exit(99);
        _exit(does(fd));
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) perror("fork"), exit(1);
    expect(what, WIFEXITED(status) ? WEXITSTATUS(status) : 98, wanted);
}

static int one(int fd) {
    return lock(fd, F_RDLCK, 1 << 20, 1);
}

int main(void) {
    char name[] = "/tmp/many-locks-XXXXXX";
    int fd = mkstemp(name), other = fd < 0 ? -1 : open(name, O_RDWR);
    if (other < 0) return perror("a file"), 1;
    int told[2], go[2];
    if (pipe(told) || pipe(go)) return perror("pipe"), 1;
    pid_t pid = fork();
    if (pid == 0) {
        if (setuid(1000)) _exit(99);
        long count = 0;
        int refused;
        while ((refused = lock(fd, F_WRLCK, count * 2, 1)) == 0 && count < 10000) count++;
        printf("%ld, then %s\n", count, strerror(refused));
        expect("a lock that is wider", lock(fd, F_WRLCK, 0, 4), 0);
        expect("one instead", lock(fd, F_WRLCK, 40000, 3), 0);
        expect("and another", lock(fd, F_WRLCK, 50000, 1), 0);
        expect("one too many", lock(fd, F_WRLCK, 60000, 1), ENOLCK);
        expect("two of one", lock(fd, F_UNLCK, 40001, 1), ENOLCK);
        expect("one fewer", lock(fd, F_UNLCK, 40000, 3), 0);
        expect("one again", lock(fd, F_WRLCK, 40000, 3), 0);
        fflush(stdout);
        write(told[1], "", 1);
        char byte;
        read(go[0], &byte, 1);
        _exit(0);
    }
    char byte;
    if (pid < 0 || read(told[0], &byte, 1) != 1) return 1;
    as(1000, one, other, "another process of the user", ENOLCK);
    as(1001, one, other, "another user", 0);
    as(0, one, other, "user 0", 0);
    expect("what he holds", lock(fd, F_WRLCK, 10, 1), EAGAIN);
    write(go[1], "", 1);
    int status;
    waitpid(pid, &status, 0);
    expect("how it ended", status, 0);
    as(1000, one, other, "afterwards", 0);
    expect("all of it", lock(fd, F_WRLCK, 0, 0), 0);
    unlink(name);
    puts("good");
    return 0;
}
