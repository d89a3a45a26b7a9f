/* Files that are cut, grow and get holes while they are mapped: what shared and private mappings see, where they end with SIGBUS, and that reads and writes of the file agree with them. cairn-test: cores=4 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 8 };

static sigjmp_buf back;
static volatile int code;

static void bus(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    code = info->si_code;
    siglongjmp(back, 1);
}

/* The byte there, or why it cannot be seen. */
static void look(const volatile unsigned char *p) {
    if (sigsetjmp(back, 1) == 0) {
        unsigned char c = *p;
        printf(c >= ' ' && c < 127 ? " %c" : " %d", c);
    } else {
        printf(" bus%s", code == BUS_ADRERR ? "" : "?");
    }
}

static void put(volatile unsigned char *p, unsigned char c) {
    if (sigsetjmp(back, 1) == 0) {
        *p = c;
    } else {
        printf("  (writing: bus)\n");
    }
}

static unsigned char *shared, *readable, *private;
static int fd;

static void show(const char *when) {
    printf("%s\n", when);
    unsigned char *all[] = {shared, readable, private};
    const char *names[] = {"shared", "read only", "private"};
    for (int i = 0; i < 3; i++) {
        printf("  %s:", names[i]);
        for (int page = 0; page < PAGES; page++) {
            look(all[i] + page * PAGE);
        }
        puts("");
    }
    printf("  file:");
    for (int page = 0; page < PAGES; page++) {
        unsigned char c;
        if (pread(fd, &c, 1, page * PAGE) == 1) {
            printf(c >= ' ' && c < 127 ? " %c" : " %d", c);
        }
    }
    puts("");
}

static unsigned char *map(int prot, int flags) {
    unsigned char *p = mmap(NULL, PAGES * PAGE, prot, flags, fd, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        _exit(1);
    }
    return p;
}

int main(void) {
    setbuf(stdout, NULL);
    struct sigaction action = {.sa_sigaction = bus, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGBUS, &action, NULL);
    fd = open("mapped-files", O_RDWR | O_CREAT | O_TRUNC, 0644);
    unsigned char buffer[3 * PAGE];
    for (int page = 0; page < 3; page++) {
        memset(buffer + page * PAGE, 'a' + page, PAGE);
    }
    pwrite(fd, buffer, sizeof buffer, 0);
    shared = map(PROT_READ | PROT_WRITE, MAP_SHARED);
    readable = map(PROT_READ, MAP_SHARED);
    private = map(PROT_READ | PROT_WRITE, MAP_PRIVATE);
    show("three pages");
    put(private + PAGE, 'P');
    put(private + 2 * PAGE, 'R');
    put(shared, 'A');
    show("written through mappings");
    ftruncate(fd, PAGE + PAGE / 2);
    show("cut to one and a half");
    ftruncate(fd, 5 * PAGE);
    printf("behind the old end:");
    look(shared + PAGE + PAGE / 2 - 1);
    look(shared + PAGE + PAGE / 2);
    puts("");
    show("five pages");
    put(shared + 4 * PAGE, 'S');
    pwrite(fd, "W", 1, 3 * PAGE);
    show("both write");
    pwrite(fd, "x", 1, 6 * PAGE);
    put(shared + 5 * PAGE, 'H');
    show("written behind the end, and into the hole before it");
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 3 * PAGE, 2 * PAGE);
    printf("punched:");
    look(shared + 3 * PAGE);
    look(shared + 4 * PAGE);
    look(readable + 4 * PAGE);
    puts("");
    put(shared + 3 * PAGE, 'Q');
    pwrite(fd, "V", 1, 4 * PAGE);
    printf("filled again:");
    look(readable + 3 * PAGE);
    look(shared + 4 * PAGE);
    unsigned char c = 0;
    pread(fd, &c, 1, 3 * PAGE);
    printf(", file %c\n", c);

    int down[2], up[2];
    pipe(down);
    pipe(up);
    pid_t child = fork();
    if (child == 0) {
        for (int page = 0; page < PAGES; page++) {
            look(shared + page * PAGE);
        }
        puts(" (child, before)");
        write(up[1], "x", 1);
        read(down[0], buffer, 1);
        for (int page = 0; page < PAGES; page++) {
            look(shared + page * PAGE);
        }
        puts(" (child, after)");
        write(up[1], "x", 1);
        read(down[0], buffer, 1);
        look(shared);
        look(private + PAGE);
        puts(" (child, in the end)");
        _exit(3);
    }
    read(up[0], buffer, 1);
    ftruncate(fd, 0);
    show("cut to nothing");
    write(down[1], "x", 1);
    read(up[0], buffer, 1);
    pwrite(fd, "new", 3, 0);
    show("written anew");
    write(down[1], "x", 1);
    int status;
    waitpid(child, &status, 0);
    printf("child: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    unlink("mapped-files");
    put(shared + 1, 'E');
    ftruncate(fd, 2 * PAGE);
    put(shared + PAGE, 'Z');
    show("without a name");
    /* Many times, with the pages that were freed used for something else. */
    int wrong = 0;
    for (int round = 0; round < 300; round++) {
        int size = 1 + round * 7 % PAGES;
        ftruncate(fd, size * PAGE);
        for (int page = 0; page < size; page++) {
            pwrite(fd, &(unsigned char){round + page}, 1, page * PAGE);
            wrong += shared[page * PAGE] != (unsigned char)(round + page);
            shared[page * PAGE + 1] = round;
        }
        for (int page = 0; page < size; page++) {
            unsigned char two[2];
            pread(fd, two, 2, page * PAGE);
            wrong += two[1] != (unsigned char)round || two[0] != readable[page * PAGE];
        }
        ftruncate(fd, 0);
        int other = open("mapped-other", O_RDWR | O_CREAT | O_TRUNC, 0644);
        memset(buffer, 0xee, sizeof buffer);
        write(other, buffer, sizeof buffer);
        close(other);
    }
    unlink("mapped-other");
    printf("wrong: %d\n", wrong);
    return 0;
}
