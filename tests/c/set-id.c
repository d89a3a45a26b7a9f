/* Set-user-id and set-group-id bits: who may make them, and what takes them away. cairn-test: disk=64M */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USER = 11, OWN = 21, GROUP = 99, OTHER = 77 };

static int member;

static void told(const char *what, int error, const char *path) {
    struct stat st;
    if (error)
        printf("%s: %s\n", what, strerror(errno));
    else if (stat(path, &st))
        printf("%s: gone\n", what);
    else
        printf("%s: %04o %d %d\n", what, st.st_mode & 07777, st.st_uid, st.st_gid);
}

/* As the user, who is a member of the folder's group or not. */
static void as_user(const char *what, void (*run)(int), int mode) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        gid_t groups[] = {GROUP};
        setgroups(member, groups);
        if (setresgid(OWN, OWN, OWN) || setresuid(USER, USER, USER))
            _exit(9);
        run(mode);
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (status)
        printf("%s: status %x\n", what, status);
}

static void makes(int mode) {
    int fd = open("d/f", O_CREAT | O_EXCL | O_WRONLY, mode);
    told(" open", fd < 0, "d/f");
    close(fd);
    unlink("d/f");
    told(" mknod", mknod("d/f", S_IFREG | mode, 0), "d/f");
    unlink("d/f");
    told(" fifo", mkfifo("d/f", mode), "d/f");
    unlink("d/f");
    told(" mkdir", mkdir("d/f", mode), "d/f");
    rmdir("d/f");
    fd = open("d", O_TMPFILE | O_RDWR, mode);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0)
        printf(" unnamed: %04o %d\n", st.st_mode & 07777, st.st_gid);
    close(fd);
    fd = open("plain/f", O_CREAT | O_EXCL | O_WRONLY, mode);
    told(" in another folder", fd < 0, "plain/f");
    close(fd);
    unlink("plain/f");
}

static void again(int mode) {
    chown("d/f", USER, GROUP);
    chmod("d/f", mode);
}

static void changes_mode(int mode) {
    told(" chmod", chmod("d/f", mode), "d/f");
}

static void writes(int mode) {
    (void)mode;
    int fd = open("d/f", O_WRONLY);
    told(" nothing", write(fd, "", 0) != 0, "d/f");
    told(" write", write(fd, "x", 1) != 1, "d/f");
    close(fd);
}

static void appends(int mode) {
    (void)mode;
    int fd = open("d/f", O_WRONLY | O_APPEND);
    told(" append", write(fd, "x", 1) != 1, "d/f");
    close(fd);
}

static void truncates(int mode) {
    (void)mode;
    told(" truncate", truncate("d/f", 1), "d/f");
}

static void cuts(int mode) {
    (void)mode;
    int fd = open("d/f", O_WRONLY);
    told(" ftruncate", ftruncate(fd, 5), "d/f");
    close(fd);
}

static void empties(int mode) {
    (void)mode;
    int fd = open("d/f", O_WRONLY | O_TRUNC);
    told(" O_TRUNC", fd < 0, "d/f");
    close(fd);
}

static void gives(int mode) {
    (void)mode;
    told(" chown to itself", chown("d/f", USER, -1), "d/f");
}

static void gives_group(int mode) {
    (void)mode;
    told(" chgrp", chown("d/f", -1, OWN), "d/f");
}

static void reserves(int mode) {
    (void)mode;
    int fd = open("d/f", O_WRONLY);
    told(" fallocate", fallocate(fd, 0, 0, 100), "d/f");
    close(fd);
}

int main(void) {
    umask(0);
    mkdir("set-id", 0755);
    if (chdir("set-id"))
        return 1;
    mkdir("d", 0777);
    chown("d", 0, GROUP);
    chmod("d", 02777);
    mkdir("plain", 0777);
    static const int modes[] = {04755, 02755, 06755, 02644, 06644, 02654, 02770};
    static void (*const ways[])(int) = {writes, appends, truncates, cuts, empties, gives, gives_group, reserves};
    for (member = 0; member < 2; member++) {
        for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++) {
            printf("%04o by %s\n", modes[i], member ? "a member" : "no member");
            as_user("make", makes, modes[i]);
            int fd = open("d/f", O_CREAT | O_WRONLY, 0666);
            if (write(fd, "abc", 3) != 3)
                return 2;
            close(fd);
            again(0666);
            as_user("chmod", changes_mode, modes[i]);
            for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
                again(modes[i]);
                as_user("way", ways[way], modes[i]);
            }
            again(modes[i]);
            told(" root's chown", chown("d/f", OTHER, OTHER), "d/f");
            again(modes[i]);
            fd = open("d/f", O_WRONLY);
            told(" root's write", write(fd, "x", 1) != 1, "d/f");
            close(fd);
            unlink("d/f");
        }
    }
    rmdir("d");
    rmdir("plain");
    chdir("..");
    rmdir("set-id");
    return 0;
}
