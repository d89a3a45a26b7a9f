/* A 1 GiB sparse file: size, blocks, holes that read as zero, data where it was written, shrinking and growing again. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const off_t GIB = 1 << 30;

static void show(int fd, const char *when) {
    struct stat st;
    fstat(fd, &st);
    printf("%s: size %lld, %lld blocks\n", when, (long long)st.st_size, (long long)st.st_blocks);
}
static void peek(int fd, off_t at) {
    char c[16];
    ssize_t n = pread(fd, c, sizeof c, at);
    printf("at %lld: %zd bytes", (long long)at, n);
    for (ssize_t i = 0; i < n; i++) {
        printf(" %d", c[i]);
    }
    puts("");
}

int main(void) {
    int fd = open("sparse-file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || ftruncate(fd, GIB) < 0) {
        perror("sparse");
        return 1;
    }
    show(fd, "empty");
    pwrite(fd, "begin", 5, 0);
    pwrite(fd, "middle", 6, GIB / 2 - 3);
    pwrite(fd, "end", 3, GIB - 3);
    show(fd, "written");
    peek(fd, 0);
    peek(fd, GIB / 2 - 8);
    peek(fd, GIB - 8);
    peek(fd, GIB / 4);
    peek(fd, GIB);
    printf("data at %lld, hole at %lld\n", (long long)lseek(fd, 4096, SEEK_DATA), (long long)lseek(fd, 0, SEEK_HOLE));
    printf("data after end: %d\n", lseek(fd, GIB, SEEK_DATA) < 0 ? errno : 0);
    pwrite(fd, "beyond", 6, GIB + 1000000);
    show(fd, "grown");
    ftruncate(fd, 3);
    show(fd, "shrunk");
    ftruncate(fd, 100);
    peek(fd, 0);
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0) {
        show(fd, "punched");
        peek(fd, 0);
    }
    printf("negative: %d\n", ftruncate(fd, -1) < 0 ? errno : 0);
    close(fd);
    unlink("sparse-file");
    return 0;
}
