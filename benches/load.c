/* Backgrounds for the interrupt rows of `./cairn bench ipc`: does one thing over and over while the clock component (benches/ipc) takes its samples.
 *     load idle|fork|write|fault
 * Looking for /ipc-clock/begin-NAME begins, and /ipc-clock/done exists when the samples are complete. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGES = 64, PAGE = 4096, BLOCK = 8192, BLOCKS = 64 };

static int look(const char *path) {
    int fd = open(path, O_RDONLY);
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    return errno;
}

static int idle(void) {
    struct timespec rest = {0, 100000000};
    return nanosleep(&rest, NULL);
}

static int process(void) {
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    return child < 0 || waitpid(child, NULL, 0) != child ? -1 : 0;
}

static int file(void) {
    static char block[BLOCK];
    int fd = open("/tmp/load", O_RDWR | O_CREAT | O_TRUNC, 0600);
    int failed = fd < 0;
    for (int i = 0; i < BLOCKS && !failed; i++) {
        failed = write(fd, block, BLOCK) != BLOCK;
    }
    failed |= close(fd) != 0;
    return failed ? -1 : 0;
}

static int pages(void) {
    char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return -1;
    }
    for (int i = 0; i < PAGES; i++) {
        ((volatile char *)memory)[i * PAGE] = 1;
    }
    return munmap(memory, PAGES * PAGE);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*once)(void);
    } loads[] = {{"idle", idle}, {"fork", process}, {"write", file}, {"fault", pages}};
    for (unsigned i = 0; argc == 2 && i < sizeof loads / sizeof loads[0]; i++) {
        if (strcmp(argv[1], loads[i].name) != 0) {
            continue;
        }
        char begin[64];
        snprintf(begin, sizeof begin, "/ipc-clock/begin-%s", loads[i].name);
        look(begin);
        int told;
        while ((told = look("/ipc-clock/done")) == ENOENT) {
            if (loads[i].once() != 0) {
                perror(loads[i].name);
                return 1;
            }
        }
        return told == EEXIST ? 0 : 1;
    }
    fprintf(stderr, "usage: load idle|fork|write|fault\n");
    return 2;
}
