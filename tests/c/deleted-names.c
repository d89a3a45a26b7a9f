/* What /proc/PID/fd and /proc/PID/cwd show of files that have no name any more; O_NOATIME of a directory; where a process is whose directory lies outside its root. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The number of an inode is no two systems' own. */
static void print_link(const char *what, const char *link) {
    char text[4096], *number;
    ssize_t length = readlink(link, text, sizeof text - 1);
    if (length < 0) {
        printf("%s: %s\n", what, strerror(errno));
        return;
    }
    text[length] = 0;
    if ((number = strchr(text, '#'))) {
        char *end = number + 1;
        while (isdigit((unsigned char)*end)) end++;
        memmove(number + 1, end, strlen(end) + 1);
    }
    printf("%s: %s\n", what, text);
}

static void show(const char *what, int fd) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    print_link(what, link);
}

static int make(const char *name) {
    int fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (fd < 0) perror(name), exit(1);
    return fd;
}

static void files(void) {
    int file = make("/tmp/names/file"), other = make("/tmp/names/other");
    show("with a name", file);
    unlink("/tmp/names/file");
    show("unlinked", file);
    make("/tmp/names/file");
    show("unlinked, and there is another one", file);
    rename("/tmp/names/file", "/tmp/names/other");
    show("replaced", other);
    int twice = make("/tmp/names/one");
    link("/tmp/names/one", "/tmp/names/two");
    unlink("/tmp/names/one");
    unlink("/tmp/names/two");
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", twice);
    char text[4096];
    ssize_t length = readlink(link, text, sizeof text);
    printf("both names: %d\n", length > 10 && !memcmp(text + length - 10, " (deleted)", 10));
    int nameless = open("/tmp/names", O_TMPFILE | O_RDWR, 0600);
    show("O_TMPFILE", nameless);
    snprintf(link, sizeof link, "/proc/self/fd/%d", nameless);
    linkat(AT_FDCWD, link, AT_FDCWD, "/tmp/names/given", AT_SYMLINK_FOLLOW);
    unlink("/tmp/names/given");
    struct stat status;
    printf("links: %d %d\n", fstat(file, &status), (int)status.st_nlink);
    snprintf(link, sizeof link, "/proc/%d/fd/%d", getpid(), file);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(file);
        print_link("somebody else's", link);
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    unlink("/tmp/names/other");
}

static void directories(void) {
    mkdir("/tmp/names/a", 0700);
    mkdir("/tmp/names/a/b", 0700);
    int a = open("/tmp/names/a", O_DIRECTORY), b = open("/tmp/names/a/b", O_PATH);
    rename("/tmp/names/a", "/tmp/names/c");
    show("moved", a);
    show("below it", b);
    chdir("/tmp/names/c/b");
    rmdir("/tmp/names/c/b");
    show("removed", b);
    print_link("working directory", "/proc/self/cwd");
    char text[4096];
    long length = syscall(SYS_getcwd, text, sizeof text);
    printf("getcwd: %ld, %s\n", length, strerror(errno));
    chdir("/tmp");
    rmdir("/tmp/names/c");
    show("and the one above", a);
}

static void outside(void) {
    pid_t pid = fork();
    if (pid == 0) {
        mkdir("/tmp/names/root", 0700);
        chdir("/tmp/names");
        if (chroot("/tmp/names/root")) _exit(1);
        char text[4096];
        long length = syscall(SYS_getcwd, text, sizeof text);
        printf("outside the root: %d %s\n", length > 0, length > 0 ? text : strerror(errno));
        errno = 0;
        printf("the C library: %s", getcwd(text, sizeof text) ? text : "none");
        printf(", %s\n", strerror(errno));
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    rmdir("/tmp/names/root");
}

static void no_access_time(void) {
    mkdir("/tmp/names/listed", 0700);
    struct timespec old[2] = {{1000, 0}, {2000, 0}};
    utimensat(AT_FDCWD, "/tmp/names/listed", old, 0);
    for (int noted = 0; noted < 2; noted++) {
        DIR *listed = fdopendir(open("/tmp/names/listed", O_DIRECTORY | (noted ? 0 : O_NOATIME)));
        while (readdir(listed)) {}
        closedir(listed);
        struct stat status;
        stat("/tmp/names/listed", &status);
        printf("read %s: %s\n", noted ? "plainly" : "with O_NOATIME", status.st_atime == 1000 ? "as before" : "noted");
    }
    rmdir("/tmp/names/listed");
}

int main(void) {
    mkdir("/tmp/names", 0700);
    files();
    directories();
    fflush(stdout);
    outside();
    no_access_time();
    printf("left: %d\n", rmdir("/tmp/names"));
    return 0;
}
