/* Calls on files with arguments that are seldom: locks of open files and beyond the greatest offset, removed folders, names for files that are open, whiteouts. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef F_OFD_SETLK
enum { F_OFD_GETLK = 36, F_OFD_SETLK = 37, F_OFD_SETLKW = 38 };
#endif

static void tell(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : result == 0 ? "0" : "more");
}

static long lock(int fd, int command, off_t start, off_t length, int pid) {
    struct flock l = {.l_type = F_WRLCK, .l_start = start, .l_len = length, .l_pid = pid};
    return fcntl(fd, command, &l);
}

static void locks(int fd) {
    tell("a lock of the open file that names a process", lock(fd, F_OFD_SETLK, 0, 0, 5));
    tell("waiting", lock(fd, F_OFD_SETLKW, 0, 0, 5));
    tell("asking", lock(fd, F_OFD_GETLK, 0, 0, 5));
    tell("a lock that names a process", lock(fd, F_SETLK, 0, 0, 5));
    tell("to the greatest offset", lock(fd, F_SETLK, 1L << 62, 1L << 62, 0));
    tell("beyond it", lock(fd, F_SETLK, 1L << 62, (1L << 62) + 1, 0));
    lseek(fd, 0x7fffffffffffffff, SEEK_SET);
    tell("a place beyond it", lseek(fd, 1, SEEK_CUR));
    lseek(fd, 0, SEEK_SET);
}

static void removed(void) {
    char bytes[500];
    mkdir("folder", 0700);
    int fd = open("folder", O_RDONLY | O_DIRECTORY);
    tell("a folder's names", syscall(SYS_getdents64, fd, bytes, sizeof bytes));
    lseek(fd, 0, SEEK_SET);
    rmdir("folder");
    tell("of one that is removed", syscall(SYS_getdents64, fd, bytes, sizeof bytes));
    tell("again", syscall(SYS_getdents64, fd, bytes, sizeof bytes));
    tell("its status", fstatat(fd, "", &(struct stat){0}, AT_EMPTY_PATH));
    close(fd);
}

static void names(int fd) {
    tell("a name for what is open", linkat(fd, "", AT_FDCWD, "further", AT_EMPTY_PATH));
    tell("for what is not", linkat(99, "", AT_FDCWD, "other", AT_EMPTY_PATH));
    tell("for nobody's", linkat(-1, "", AT_FDCWD, "other", AT_EMPTY_PATH));
    unlink("further");
}

static void mount_number(void) {
    /* STATX_MNT_ID: the same for two files of a mount, another one in /proc. */
    unsigned char one[256], two[256], three[256];
    const unsigned mask = 0x1000;
    tell("statx", syscall(SYS_statx, AT_FDCWD, ".", 0, mask, one));
    tell("statx", syscall(SYS_statx, AT_FDCWD, "file", 0, mask, two));
    tell("statx", syscall(SYS_statx, AT_FDCWD, "/proc/self", 0, mask, three));
    unsigned got;
    memcpy(&got, one, sizeof got);
    printf("mount told %d, same %d, other %d\n", (got & mask) != 0, memcmp(one + 144, two + 144, 8) == 0, memcmp(one + 144, three + 144, 8) != 0);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    char place[] = "/tmp/file-calls-XXXXXX";
    if (mkdtemp(place) == NULL || chdir(place) != 0 || chmod(place, 0777) != 0) {
        return 1;
    }
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    locks(fd);
    removed();
    names(fd);
    mount_number();
    pid_t child = fork();
    if (child == 0) {
        if (setgid(1000) != 0 || setuid(1000) != 0) {
            _exit(1);
        }
        tell("a whiteout", mknod("whiteout", S_IFCHR | 0600, 0));
        tell("another device", mknod("device", S_IFCHR | 0600, 0x103));
        tell("a disk that is none", mknod("disk", S_IFBLK | 0600, 0));
        _exit(0);
    }
    waitpid(child, NULL, 0);
    unlink("whiteout");
    unlink("file");
    chdir("/");
    rmdir(place);
    return 0;
}
