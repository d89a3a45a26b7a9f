/* Files opened and closed all the time, in processes that fork, double descriptors, execute, and have threads: each descriptor must lead to the file that it was opened for, with a position that is its own or shared as POSIX says, and what closing releases is released at once.
 * cairn-test: cores=2 disk=32M */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 8, MOST = 12, ROUNDS = 400, THREADS = 4, LENGTH = 64 };

static unsigned state;
extern char **environ;

static unsigned next_random(unsigned below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

static void fail(const char *what, long is, long should) {
    printf("%s is %ld, not %ld (%s)\n", what, is, should, strerror(errno));
    fflush(stdout);
    _exit(1);
}

static void must(const char *what, long is, long should) {
    if (is != should) {
        fail(what, is, should);
    }
}

static const char *file_name(int file) {
    static _Thread_local char text[100];
    static char here[64];
    if (!*here && !getcwd(here, sizeof here)) {
        return "?";
    }
    /* Half of them by absolute names. */
    if (file & 1) {
        snprintf(text, sizeof text, "reopened-%d", file);
    } else {
        snprintf(text, sizeof text, "%s/reopened-%d", here, file);
    }
    return text;
}

/* Open descriptions that this process has alone: descriptor, file, position. */
static struct {
    int fd, file, position;
} open_now[MOST];
static int count;

static void check(int at) {
    unsigned char c;
    long want = open_now[at].position < LENGTH;
    must("bytes", read(open_now[at].fd, &c, 1), want);
    if (want) {
        must("a byte", c, (unsigned char)(open_now[at].file * 16 + open_now[at].position % 16));
        open_now[at].position++;
    }
}

static void open_one(void) {
    int file = next_random(FILES), at = count++;
    open_now[at].fd = open(file_name(file), next_random(2) ? O_RDONLY : O_RDWR | O_CLOEXEC);
    open_now[at].file = file;
    open_now[at].position = 0;
    if (open_now[at].fd < 0) {
        fail("open", -1, 0);
    }
    check(at);
}

static void close_one(int at) {
    int fd = open_now[at].fd;
    must("close", close(fd), 0);
    must("a closed descriptor", fcntl(fd, F_GETFD), -1);
    open_now[at] = open_now[--count];
}

static void child(void) {
    /* Positions are shared with the parent, which waits: so each is put back. */
    for (int i = 0; i < count; i++) {
        int before = open_now[i].position;
        check(i);
        lseek(open_now[i].fd, before, SEEK_SET);
    }
    while (count > 0 && next_random(3)) {
        close_one(next_random(count));
        open_one();
        if (next_random(2) && count > 1) {
            close_one(count - 1);
        }
    }
    _exit(0);
}

static void game(unsigned seed) {
    state = seed;
    for (int round = 0; round < ROUNDS; round++) {
        int at = count ? next_random(count) : 0;
        switch (next_random(10)) {
        case 0:
        case 1:
        case 2:
            if (count < MOST) {
                open_one();
            }
            break;
        case 3:
        case 4:
        case 5:
            if (count) {
                close_one(at);
            }
            break;
        case 6:
            if (count) { /* the double closes nothing */
                int fd = dup(open_now[at].fd);
                must("close of a double", close(open_now[at].fd), 0);
                open_now[at].fd = fd;
                check(at);
            }
            break;
        case 7:
            if (round % 8 == 0) {
                pid_t pid = fork();
                if (pid == 0) {
                    child();
                }
                int status;
                must("wait", waitpid(pid, &status, 0), pid);
                must("the child's status", status, 0);
            }
            break;
        case 8:
            if (round % 16 == 0) {
                pid_t pid;
                char *arguments[] = {"true", NULL};
                int status;
                must("spawn", posix_spawnp(&pid, "true", NULL, NULL, arguments, environ), 0);
                must("wait", waitpid(pid, &status, 0), pid);
            }
            break;
        default:
            if (count) {
                check(at);
            }
        }
    }
    while (count) {
        close_one(count - 1);
    }
}

static void releases(void) {
    for (int round = 0; round < 20; round++) {
        int first = open(file_name(1), O_RDWR), second = open(file_name(1), O_RDWR);
        must("lock", flock(first, LOCK_EX), 0);
        must("a lock that is held", flock(second, LOCK_EX | LOCK_NB), -1);
        close(first);
        must("a lock that was released", flock(second, LOCK_EX | LOCK_NB), 0);
        close(second);
        /* A program that is open for writing cannot be executed, and can at once after. */
        int program = open("reopened-true", O_WRONLY | O_CREAT | O_TRUNC, 0755);
        dprintf(program, "#!/bin/sh\nexit 7\n");
        must("close", close(program), 0);
        int status = system("./reopened-true");
        must("the program's status", WEXITSTATUS(status), 7);
    }
    /* A child keeps what it inherited, whatever its parent does with the descriptor. */
    for (int round = 0; round < 20; round++) {
        int ready[2], fd = open(file_name(3), O_RDONLY);
        must("pipe", pipe(ready), 0);
        pid_t pid = fork();
        if (pid == 0) {
            char c;
            must("the parent's word", read(ready[0], &c, 1), 1);
            must("inherited", read(fd, &c, 1), 1);
            must("its byte", c, 3 * 16);
            _exit(0);
        }
        close(fd);
        int other = open(file_name(4), O_RDONLY);
        must("write", write(ready[1], "x", 1), 1);
        int status;
        must("wait", waitpid(pid, &status, 0), pid);
        must("the child's status", status, 0);
        close(other), close(ready[0]), close(ready[1]);
    }
}

static void *many(void *number) {
    unsigned mine = (unsigned)(long)number;
    for (int i = 0; i < 300; i++) {
        mine = mine * 1664525u + 1013904223u;
        int file = (mine >> 8) % FILES;
        int fd = open(file_name(file), O_RDONLY);
        unsigned char c[3];
        if (fd < 0 || pread(fd, c, 3, 2) != 3) {
            fail("a thread's read", fd, 3);
        }
        must("a thread's byte", c[0], (unsigned char)(file * 16 + 2));
        struct stat st;
        must("fstat", fstat(fd, &st), 0);
        must("its length", st.st_size, LENGTH);
        must("a thread's close", close(fd), 0);
    }
    return NULL;
}

static void threads(void) {
    pthread_t thread[THREADS];
    for (long i = 0; i < THREADS; i++) {
        must("pthread_create", pthread_create(&thread[i], NULL, many, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < 10; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            game(i + 77);
            _exit(0);
        }
        int status;
        must("wait", waitpid(pid, &status, 0), pid);
        must("the child's status", status, 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
}

int main(void) {
    for (int file = 0; file < FILES; file++) {
        int fd = open(file_name(file), O_WRONLY | O_CREAT | O_TRUNC, 0644);
        for (int i = 0; i < LENGTH; i++) {
            unsigned char c = file * 16 + i % 16;
            must("write", write(fd, &c, 1), 1);
        }
        close(fd);
    }
    for (unsigned seed = 1; seed <= 10; seed++) {
        game(seed);
    }
    releases();
    threads();
    /* No descriptor is left over. */
    int fd = open(file_name(0), O_RDONLY);
    must("the lowest descriptor", fd, 3);
    close(fd);
    printf("every descriptor led to its file\n");
    return 0;
}
