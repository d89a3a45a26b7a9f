/* A program that read a file often, in whatever way, and closed it keeps nobody from unmounting its file system; one that has it open or mapped does. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char bytes[4096];

static int make(void) {
    if (mount("none", "/tmp/unmount", "tmpfs", 0, "size=1m"))
        exit(9);
    int fd = open("/tmp/unmount/file", O_CREAT | O_RDWR, 0600);
    for (int i = 0; i < 16; i++)
        if (write(fd, bytes, sizeof bytes) != sizeof bytes)
            exit(8);
    return fd;
}

static void read_often(int fd) {
    for (int i = 0; i < 500; i++) {
        if (i % 16 == 0)
            lseek(fd, 0, SEEK_SET);
        if (read(fd, bytes, i % 2 ? sizeof bytes : 512) <= 0 || pread(fd, bytes, 100, i) != 100)
            exit(7);
    }
}

static void leave(const char *what) {
    int result = umount("/tmp/unmount");
    printf("%s: %s\n", what, result == 0 ? "unmounted" : strerror(errno));
    if (result)
        umount("/tmp/unmount");
}

int main(void) {
    mkdir("/tmp/unmount", 0755);
    int fd = make();
    read_often(fd);
    printf("open: %s\n", umount("/tmp/unmount") ? strerror(errno) : "unmounted");
    close(fd);
    leave("read often");

    fd = make();
    close(fd);
    for (int i = 0; i < 5; i++) {
        fd = open("/tmp/unmount/file", O_RDONLY);
        read_often(fd);
        close(fd);
    }
    leave("read again and again");

    close(make());
    int ready[2], over[2];
    if (pipe(ready) || pipe(over))
        return 6;
    pid_t pid = fork();
    if (pid == 0) {
        close(over[1]);
        fd = open("/tmp/unmount/file", O_RDONLY);
        read_often(fd);
        close(fd);
        if (write(ready[1], bytes, 1) != 1 || read(over[0], bytes, 1) < 0)
            _exit(5);
        _exit(0);
    }
    close(over[0]);
    if (read(ready[0], bytes, 1) != 1)
        return 4;
    leave("read by another that stays");
    close(over[1]);
    waitpid(pid, NULL, 0);

    fd = make();
    char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    printf("mapped: %s %d\n", umount("/tmp/unmount") ? strerror(errno) : "unmounted", *map);
    munmap(map, 4096);
    leave("no longer mapped");
    rmdir("/tmp/unmount");
    return 0;
}
