/* A file is mapped privately in several calls, as loaders do it: each shows the file, whatever was mapped there before, and what was written to one is not in the others. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 6

static int file(const char *name, int first) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    unsigned char page[PAGE];
    for (int i = 0; i < PAGES; i++) {
        memset(page, first + i, PAGE);
        write(fd, page, PAGE);
    }
    return fd;
}

static unsigned char *map(void *at, int pages, int flags, int fd, int page) {
    flags |= MAP_PRIVATE | (at ? MAP_FIXED : 0);
    unsigned char *p = mmap(at, pages * PAGE, PROT_READ | PROT_WRITE, flags, fd, page * PAGE);
    if (p == MAP_FAILED) {
        perror("mmap");
        _exit(1);
    }
    return p;
}

static void show(const char *what, const unsigned char *p, int pages) {
    printf("%-34s", what);
    for (int i = 0; i < pages; i++) {
        printf("%c", p[i * PAGE + 1]);
    }
    puts("");
}

int main(void) {
    setbuf(stdout, NULL);
    int a = file("mapped-again-a", 'a'), b = file("mapped-again-b", 'A');
    unsigned char *p = map(NULL, PAGES, MAP_DENYWRITE, a, 0);
    p[1] = 'x';
    show("first", p, PAGES);
    map(p, PAGES, MAP_DENYWRITE, a, 0);
    show("over all of it", p, PAGES);
    map(p + 2 * PAGE, 2, MAP_DENYWRITE, a, 1);
    show("over its middle, another offset", p, PAGES);
    p[2 * PAGE + 1] = 'y';
    unsigned char *q = map(NULL, 2, 0, a, 1);
    show("elsewhere", q, 2);
    pwrite(a, "b2", 2, PAGE);
    show("after a write", q, 1);
    map(p, 2, 0, b, 4);
    show("another file over it", p, PAGES);
    map(p + 4 * PAGE, 1, 0, a, 0);
    show("the first again", p, PAGES);
    munmap(p, PAGES * PAGE);
    p = map(p, PAGES, 0, b, 0);
    map(q, 2, 0, a, 3);
    show("other", p, PAGES);
    show("first", q, 2);
    map(q, 2, 0, a, 0);
    close(a);
    a = open("mapped-again-b", O_RDONLY);
    map(q, 2, 0, a, 0);
    show("another open file", q, 2);
    ftruncate(b, PAGE);
    ftruncate(b, 2 * PAGE);
    map(q, 2, 0, a, 0);
    printf("cut and grown: %c %d\n", q[1], q[PAGE + 1]);
    pid_t child = fork();
    if (child == 0) {
        map(q, 1, 0, a, 0);
        show("child", q, 1);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    int w = open("mapped-again-b", O_WRONLY);
    printf("not to be read: %d\n", mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, w, 0) == MAP_FAILED);
    map(q, 2, 0, a, 0);
    printf("shared: %c\n", *(unsigned char *)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, a, 0));
    unlink("mapped-again-a");
    unlink("mapped-again-b");
    return 0;
}
