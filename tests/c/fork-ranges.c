/* Ranges that come into a child as zeroes or not at all: MADV_WIPEONFORK, MADV_DONTFORK and their opposites. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 8, SIZE = 4096 };
static unsigned char *at;

static void tell(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "ok");
}

/* Each page's first byte, or - where there is none. */
static void show(const char *who) {
    int pair[2];
    printf("%s:", who);
    if (pipe(pair)) return;
    for (int i = 0; i < PAGES; i++) {
        unsigned char byte;
        if (write(pair[1], at + i * SIZE, 1) == 1 && read(pair[0], &byte, 1) == 1) printf(" %d", byte);
        else printf(" -");
    }
    printf("\n");
    close(pair[0]), close(pair[1]);
}

static void child(void (*run)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        run();
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (status) printf("status %x\n", status);
}

static void grandchild(void) { show("  grandchild"); }

static void in_child(void) {
    show("child");
    at[2 * SIZE] = 9, at[3 * SIZE] = 9;
    tell("  keep", madvise(at + 3 * SIZE, SIZE, MADV_KEEPONFORK));
    child(grandchild);
    /* What is not there can be mapped. */
    void *there = mmap(at + 5 * SIZE, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    printf("  mapped %d\n", there == at + 5 * SIZE);
}

static void plain(void) { show("child"); }

int main(void) {
    setbuf(stdout, NULL);
    at = mmap(NULL, PAGES * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(at, 7, PAGES * SIZE);
    tell("wipe", madvise(at + 2 * SIZE, 2 * SIZE, MADV_WIPEONFORK));
    tell("not", madvise(at + 5 * SIZE, SIZE, MADV_DONTFORK));
    child(in_child);
    show("parent");
    tell("protect", mprotect(at + 2 * SIZE, SIZE, PROT_READ));
    tell("lock", mlock(at, PAGES * SIZE));
    child(plain);
    tell("unlock", munlockall());
    child(plain);
    tell("fork", madvise(at, PAGES * SIZE, MADV_DOFORK));
    tell("keep", madvise(at, PAGES * SIZE, MADV_KEEPONFORK));
    child(plain);
    /* A moved range stays as it was told. */
    tell("wipe", madvise(at + SIZE, SIZE, MADV_WIPEONFORK));
    void *moved = mremap(at + SIZE, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, at + 6 * SIZE);
    printf("moved %d\n", moved == at + 6 * SIZE);
    child(plain);
    show("parent");
    /* Memory that is shared with the child as a whole stays. */
    pid_t pid = vfork();
    if (pid == 0) _exit(at[6 * SIZE]);
    int status;
    waitpid(pid, &status, 0);
    printf("vfork %d\n", WEXITSTATUS(status));

    int fd = open("/proc/self/exe", O_RDONLY);
    void *file = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
    void *shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    tell("a file's", madvise(file, SIZE, MADV_WIPEONFORK));
    tell("shared", madvise(shared, SIZE, MADV_WIPEONFORK));
    tell("shared, keep", madvise(shared, SIZE, MADV_KEEPONFORK));
    tell("shared, not", madvise(shared, SIZE, MADV_DONTFORK));
    pid = fork();
    if (pid == 0) {
        tell("  there", msync(shared, SIZE, MS_ASYNC));
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    munmap(shared, SIZE);
    tell("nothing there", madvise(shared, SIZE, MADV_WIPEONFORK));
    tell("nothing there, not", madvise(shared, SIZE, MADV_DONTFORK));
    tell("not a page's start", madvise(at + 1, SIZE, MADV_WIPEONFORK));
    tell("no length", madvise(at, 0, MADV_WIPEONFORK));
    return 0;
}
