/* Single pages, far apart: a fork while an older child has what its parent wrote since, and moving all of them while a child has them as well. Each page costs the memory manager a record of its own. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 8000L
#define APART (256L * 1024)

static char *place(int protection) {
    char *at = mmap(NULL, PAGES * APART, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return at;
}

static void fill(char *pages, char value) {
    for (long i = 0; i < PAGES; i++) {
        pages[i * APART] = value;
    }
}

static long sum(const char *pages) {
    long all = 0;
    for (long i = 0; i < PAGES; i++) {
        all += pages[i * APART];
    }
    return all;
}

/* A child that waits; when its pipe is closed it says what it sees. */
static pid_t watcher(const char *pages, int pipes[2]) {
    if (pipe(pipes) != 0) {
        perror("pipe");
        exit(1);
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(pipes[1]);
        (void)!read(pipes[0], &byte, 1);
        printf("child %ld\n", sum(pages));
        exit(0);
    }
    if (pid < 0) {
        perror("fork");
        exit(1);
    }
    close(pipes[0]);
    return pid;
}

static void let_go(pid_t pid, int pipes[2]) {
    int status;
    close(pipes[1]);
    waitpid(pid, &status, 0);
    printf("status %d\n", status);
}

int main(void) {
    int one[2], two[2];
    char *pages = place(PROT_READ | PROT_WRITE);
    fill(pages, 1);
    pid_t first = watcher(pages, one);
    fill(pages, 2);
    pid_t second = watcher(pages, two);
    let_go(second, two);
    let_go(first, one);
    second = watcher(pages, two);
    char *target = place(PROT_NONE);
    char *moved = mremap(pages, PAGES * APART, PAGES * APART, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    printf("moved %d, %ld\n", moved == target, moved == target ? sum(moved) : 0);
    let_go(second, two);
    return 0;
}
