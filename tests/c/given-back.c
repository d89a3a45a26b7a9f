/* What servers kept for programs goes back when the programs close it: full pipes, socket pairs, sparse files, links, descriptors. As an ordinary user, who has nothing to do with it before and afterwards.
   (Cairn only: Linux caches.) */
/* cairn-test: linux=no */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The tests' machine has 256 MiB: one percent of it. */
#define ALLOWED_KIB 2600

static long free_kib(void) {
    char line[128];
    long kib = -1;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "MemFree: %ld", &kib) == 1) {
            break;
        }
    }
    if (f) {
        fclose(f);
    }
    return kib;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* 40 MiB in pipes of 64 KiB, filled in small and in large pieces. */
static long pipes(void) {
    static char piece[65536];
    int ends[640][2];
    for (int i = 0; i < 640; i++) {
        if (pipe2(ends[i], O_NONBLOCK)) {
            die("pipe");
        }
        size_t length = i % 3 == 0 ? 512 : sizeof piece;
        while (write(ends[i][1], piece, length) > 0) {
        }
    }
    long there = free_kib();
    /* In no order. */
    for (int i = 0; i < 640; i++) {
        int at = i * 277 % 640;
        close(ends[at][0]);
        close(ends[at][1]);
    }
    return there;
}

static long pairs(void) {
    static char piece[65536];
    int ends[300][2];
    for (int i = 0; i < 300; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends[i])) {
            die("socketpair");
        }
        while (write(ends[i][0], piece, sizeof piece) > 0) {
        }
    }
    long there = free_kib();
    for (int i = 0; i < 300; i++) {
        close(ends[i][0]);
        close(ends[i][1]);
    }
    return there;
}

/* Pages far from each other: each has an index of its own. */
static long sparse(void) {
    long there = 0;
    for (int file = 0; file < 4; file++) {
        int fd = open("/tmp/given-back", O_RDWR | O_CREAT, 0600);
        for (long page = 0; page < 1500; page++) {
            if (pwrite(fd, "x", 1, page * 4096 * 4096) != 1) {
                die("pwrite");
            }
        }
        there = free_kib();
        close(fd);
        unlink("/tmp/given-back");
    }
    return there;
}

static long links(void) {
    static char target[3000], name[64];
    memset(target, 'l', sizeof target - 1);
    for (int i = 0; i < 5000; i++) {
        sprintf(name, "/tmp/given-back-%d-and-a-name-that-has-no-room-in-an-entry", i);
        if (symlink(target, name)) {
            die("symlink");
        }
    }
    long there = free_kib();
    for (int i = 0; i < 5000; i++) {
        int at = i * 277 % 5000;
        sprintf(name, "/tmp/given-back-%d-and-a-name-that-has-no-room-in-an-entry", at);
        unlink(name);
    }
    return there;
}

static long descriptors(void) {
    static int fds[1000];
    long there = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++) {
            fds[i] = open("/tmp", O_RDONLY | O_DIRECTORY);
            if (fds[i] < 0) {
                die("open");
            }
        }
        there = free_kib();
        for (int i = 0; i < 1000; i++) {
            close(fds[i]);
        }
    }
    return there;
}

static const struct {
    const char *name;
    long (*does)(void);
} kinds[] = {{"pipes", pipes}, {"pairs", pairs}, {"sparse files", sparse}, {"links", links}, {"descriptors", descriptors}};

static void run(long (*does)(void), long *there) {
    int told[2];
    if (pipe(told)) {
        die("pipe");
    }
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit = {4096, 4096};
        setrlimit(RLIMIT_NOFILE, &limit);
        if (setuid(1000)) {
            die("setuid");
        }
        long kib = does();
        write(told[1], &kib, sizeof kib);
        _exit(0);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        puts("it failed");
        exit(1);
    }
    read(told[0], there, sizeof *there);
    close(told[0]);
    close(told[1]);
}

int main(void) {
    setbuf(stdout, NULL);
    int failed = 0;
    for (int kind = 0; kind < (int)(sizeof kinds / sizeof *kinds); kind++) {
        long before = free_kib(), there;
        run(kinds[kind].does, &there);
        /* (What is much goes back in pieces, beside other programs.) */
        long kept = before - free_kib();
        for (int i = 0; i < 100 && kept > ALLOWED_KIB; i++) {
            usleep(10000);
            kept = before - free_kib();
        }
        fprintf(stderr, "%s: %ld KiB taken, %ld KiB kept\n", kinds[kind].name, before - there, kept);
        if (kept <= ALLOWED_KIB) {
            printf("%s: given back\n", kinds[kind].name);
        } else {
            printf("%s: %ld KiB are kept\n", kinds[kind].name, kept);
            failed = 1;
        }
    }
    return failed;
}
