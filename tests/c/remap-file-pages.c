/* remap_file_pages: parts of a shared mapping show others of its pages, in any order, and what it refuses. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

static void tell(const char *what, int result) {
    if (result < 0) printf("%s: %s\n", what, strerror(errno));
    else printf("%s: done\n", what);
}

static void show(const char *what, const char *at, int pages) {
    printf("%s:", what);
    for (int i = 0; i < pages; i++) printf(" %c", at[i * PAGE]);
    printf("\n");
}

int main(void) {
    int fd = open("remapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    ftruncate(fd, 8 * PAGE);
    for (int i = 0; i < 8; i++) pwrite(fd, &"abcdefgh"[i], 1, i * PAGE);
    char *at = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    show("at first", at, 8);
    for (int i = 0; i < 8; i++) if (remap_file_pages(at + i * PAGE, PAGE, 0, 7 - i, 0)) perror("reverse");
    show("reversed", at, 8);
    tell("over several mappings", remap_file_pages(at + PAGE, 3 * PAGE, 0, 5, 0));
    show("so", at, 8);
    at[PAGE] = 'F', at[6 * PAGE] = 'B';
    tell("all of it", remap_file_pages(at, 8 * PAGE, 0, 0, 0));
    show("with what was written", at, 8);
    tell("the end rounded", remap_file_pages(at + 100, PAGE + 4000, 0, 7, MAP_NONBLOCK));
    show("one page", at, 8);
    if (fork() == 0) at[0] = 'H', _exit(0);
    wait(0);
    tell("back", remap_file_pages(at, PAGE, 0, 0, 0));
    show("a child wrote", at, 8);
    tell("with a protection", remap_file_pages(at, PAGE, PROT_READ, 0, 0));
    tell("nothing", remap_file_pages(at, 0, 0, 0, 0));
    tell("less than a page", remap_file_pages(at, 100, 0, 0, 0));
    tell("beyond all numbers", remap_file_pages(at, PAGE, 0, -1UL, 0));
    mprotect(at + 4 * PAGE, PAGE, PROT_READ);
    tell("of two kinds", remap_file_pages(at + 3 * PAGE, 2 * PAGE, 0, 0, 0));
    tell("of the other", remap_file_pages(at + 4 * PAGE, PAGE, 0, 1, 0));
    show("which it stays", at, 8);
    munmap(at + 2 * PAGE, PAGE);
    tell("with a hole", remap_file_pages(at + PAGE, 3 * PAGE, 0, 0, 0));
    tell("in the hole", remap_file_pages(at + 2 * PAGE, PAGE, 0, 0, 0));
    char *own = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tell("private", remap_file_pages(own, PAGE, 0, 0, 0));
    char *shared = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 4; i++) shared[i * PAGE] = 'w' + i;
    tell("of no file", remap_file_pages(shared, 2 * PAGE, 0, 2, 0));
    show("as well", shared, 4);
    char two[2 * PAGE];
    fd = open("remapped", O_RDONLY), pread(fd, two, sizeof two, 0), close(fd);
    show("the file", two, 2);
    unlink("remapped");
    return 0;
}
