/* A user who fills the file system of the root with a file gets ENOSPC, and user 0 can go on writing there; afterwards it is as before. (Cairn only: Linux leaves nothing to user 0 in a tmpfs.) */
/* cairn-test: linux=no */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

static char piece[1 << 20];

static long room(void) {
    struct statvfs f;
    if (statvfs("/tmp", &f)) perror("statvfs"), exit(1);
    return f.f_bavail;
}

int main(void) {
    static const char *const name = "/tmp/full-files", *const own = "/tmp/full-files-0";
    unlink(name);
    unlink(own);
    long before = room();
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (setuid(1000)) _exit(1);
        int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (fd < 0) _exit(2);
        ssize_t n;
        while ((n = write(fd, piece, sizeof piece)) > 0) {
        }
        /* And small things, until there is no room for those. */
        int why = errno;
        while (write(fd, piece, 4096) > 0) {
        }
        if (errno != why || mkdir("/tmp/full-files/d", 0700) == 0) _exit(3);
        _exit(why);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return perror("fork"), 1;
    printf("the user: %s\n", WIFEXITED(status) ? strerror(WEXITSTATUS(status)) : "killed");
    int fd = open(own, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || write(fd, piece, sizeof piece) != sizeof piece) return perror("user 0"), 1;
    close(fd);
    if (mkdir("/tmp/full-files-d", 0700) || rmdir("/tmp/full-files-d")) return perror("mkdir"), 1;
    unlink(own);
    unlink(name);
    long kept = before - room();
    if (WEXITSTATUS(status) != ENOSPC || kept > 64) {
        printf("pages that are kept: %ld\n", kept);
        return 1;
    }
    puts("good");
    return 0;
}
