/* One file, read often by two processes while both write, cut and punch it, through handles of their own, doubled ones and one that they share: every read and every position is compared with a copy in memory.
 * Then they do so at the same time, and what is read must be something that was written, never older than before. cairn-test: cores=4 disk=32M */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 300000, STREAKS = 400, STREAK = 40, HANDLES = 5, PAGE = 4096, PAGES = 8, ROUNDS = 3000 };
/* Handles: two that are one (by dup), one for reading, one that appends, one that both processes have. */
enum { FIRST, DOUBLE, READER, APPENDS, COMMON };

static struct {
    unsigned random;
    off_t size, position[2][HANDLES];
    long reads, operations;
    unsigned char model[MOST];
} *all;
static int fd[HANDLES], me;
static const char *name = "shared-reads-file";

static unsigned next_random(unsigned below) {
    all->random = all->random * 1664525u + 1013904223u;
    return (all->random >> 8) % below;
}

static void fail(const char *what, long is, long should) {
    printf("process %d, operation %ld: %s is %ld, not %ld (%s)\n", me, all->operations, what, is, should, strerror(errno));
    fflush(stdout);
    _exit(1);
}

static off_t *position(int h) {
    return h == COMMON ? &all->position[0][COMMON] : &all->position[me][h == DOUBLE ? FIRST : h];
}

static void check_read(int h, int at_position) {
    static unsigned char buffer[20000];
    size_t length = next_random(4) ? next_random(5000) : next_random(sizeof buffer);
    off_t at = at_position ? *position(h) : next_random(all->size + all->size / 8 + 10);
    ssize_t left = at < all->size ? all->size - at : 0;
    ssize_t should = (ssize_t)length < left ? (ssize_t)length : left;
    ssize_t is = at_position ? read(fd[h], buffer, length) : pread(fd[h], buffer, length, at);
    if (is != should) {
        fail("count read", is, should);
    }
    for (ssize_t i = 0; i < is; i++) {
        if (buffer[i] != all->model[at + i]) {
            fail("byte read", buffer[i], all->model[at + i]);
        }
    }
    if (at_position) {
        *position(h) += is;
    }
    all->reads++;
}

static void check_write(int h, int at_position) {
    static unsigned char buffer[9000];
    size_t length = 1 + next_random(next_random(4) ? 200 : sizeof buffer);
    off_t at = h == APPENDS ? all->size : at_position ? *position(h) : (off_t)next_random(all->size + 3000);
    if (at + (off_t)length > MOST) {
        return;
    }
    memset(buffer, next_random(256), length);
    ssize_t is = at_position || h == APPENDS ? write(fd[h], buffer, length) : pwrite(fd[h], buffer, length, at);
    if (is != (ssize_t)length) {
        fail("count written", is, length);
    }
    if (at > all->size) {
        memset(all->model + all->size, 0, at - all->size);
    }
    memcpy(all->model + at, buffer, length);
    all->size = at + (off_t)length > all->size ? at + (off_t)length : all->size;
    if (at_position || h == APPENDS) {
        *position(h) = at + length;
    }
}

static void check_seek(int h) {
    int whence = next_random(3);
    off_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? *position(h) : all->size;
    off_t target = next_random(all->size + 100), is = lseek(fd[h], target - base, whence);
    if (is != target) {
        fail("position", is, target);
    }
    *position(h) = target;
    if (lseek(fd[h], -target - 1, SEEK_CUR) >= 0 || errno != EINVAL) {
        fail("seek before the start", errno, EINVAL);
    }
}

static void cut_or_punch(void) {
    off_t at = next_random(all->size + 1), length = 1 + next_random(20000);
    if (next_random(2)) {
        if (ftruncate(fd[FIRST], at) < 0) {
            fail("ftruncate", errno, 0);
        }
        all->size = at;
    } else if (fallocate(fd[FIRST], FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, at, length) == 0) {
        length = at + length > all->size ? all->size - at : length;
        memset(all->model + at, 0, length);
    } else {
        fail("fallocate", errno, 0);
    }
}

static void operation(void) {
    static const int written[] = {FIRST, DOUBLE, APPENDS};
    all->operations++;
    int what = next_random(40), h = next_random(HANDLES);
    if (what < 30) {
        check_read(h, what < 20);
    } else if (what < 33) {
        check_write(written[next_random(3)], what < 32);
    } else if (what < 37) {
        check_seek(h);
    } else if (what == 37) {
        struct stat st;
        if (fstat(fd[h], &st) < 0 || st.st_size != all->size) {
            fail("size", st.st_size, all->size);
        }
    } else if (what == 38 && next_random(3) == 0) {
        cut_or_punch();
    }
}

/* Many reads in a row through one handle, then anything. */
static void streak(void) {
    int h = next_random(HANDLES);
    for (int i = 0; i < STREAK / 2; i++) {
        all->operations++;
        if (*position(h) >= all->size && lseek(fd[h], 0, SEEK_SET) == 0) {
            *position(h) = 0;
        }
        check_read(h, 1);
    }
    for (int i = 0; i < STREAK / 2; i++) {
        operation();
    }
}

static void open_own(void) {
    fd[FIRST] = open(name, O_RDWR);
    fd[DOUBLE] = dup(fd[FIRST]);
    fd[READER] = open(name, O_RDONLY);
    fd[APPENDS] = open(name, O_RDWR | O_APPEND);
    memset(all->position[me], 0, sizeof *all->position[me] * COMMON);
}

static void close_own(void) {
    for (int h = FIRST; h < COMMON; h++) {
        close(fd[h]);
    }
}

/* Take turns: whoever has the byte. Now and then a child goes on with the same handles, and others take the place of the old ones. */
static void in_turns(int in, int out) {
    char token;
    open_own();
    for (int i = 0; i < STREAKS && read(in, &token, 1) == 1; i++) {
        streak();
        if (i % 16 == 7) {
            pid_t child = fork();
            if (child == 0) {
                streak();
                _exit(0);
            }
            int status = 1;
            waitpid(child, &status, 0);
            if (status != 0) {
                fail("the child's status", status, 0);
            }
        }
        if (i % 64 == 63) {
            close_own();
            open_own();
        }
        write(out, &token, 1);
    }
    close_own();
}

static int wait_for(pid_t child) {
    int status = 1;
    waitpid(child, &status, 0);
    return status;
}

static int play(void) {
    int there[2], back[2];
    fd[COMMON] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    pipe(there);
    pipe(back);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        me = 1;
        close(there[1]);
        close(back[0]);
        in_turns(there[0], back[1]);
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    write(there[1], "", 1);
    in_turns(back[0], there[1]);
    int status = wait_for(child);
    printf("in turns: %ld operations, %ld reads, at last %ld bytes, status %d\n", all->operations, all->reads, (long)all->size, status);
    return status;
}

/* Each word of a page is the number of the round that wrote it; the file is cut at times. */
static void write_rounds(int file) {
    static uint64_t page[PAGE / 8];
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < PAGE / 8; i++) {
            page[i] = round;
        }
        if (round % 50 == 0) {
            ftruncate(file, PAGE * (round / 50 % PAGES));
        }
        pwrite(file, page, PAGE, PAGE * (round % PAGES));
    }
}

static int read_rounds(int file) {
    static uint64_t page[PAGE / 8];
    uint64_t newest[PAGES] = {0};
    for (int i = 0; newest[ROUNDS % PAGES] != ROUNDS; i++) {
        int at = i % PAGES;
        ssize_t count = pread(file, page, PAGE, PAGE * at);
        if (count < 0 || count % 8 != 0) {
            printf("read %ld: %s\n", (long)count, strerror(errno));
            return 1;
        }
        for (int k = 0; k < count / 8; k++) {
            /* Zero where it was cut, and grew again. */
            if (page[k] != 0 && (page[k] % PAGES != (unsigned)at || page[k] < newest[at] || page[k] > ROUNDS)) {
                printf("page %d word %d is %llu after %llu\n", at, k, (unsigned long long)page[k], (unsigned long long)newest[at]);
                return 1;
            }
        }
        /* A write goes upwards: where the last word is new all are. */
        newest[at] = count == PAGE && page[PAGE / 8 - 1] ? page[PAGE / 8 - 1] : newest[at];
        if (count == 0) {
            sched_yield();
        }
    }
    return 0;
}

static int at_once(void) {
    int file = open(name, O_RDWR | O_TRUNC);
    pid_t readers[3];
    fflush(stdout);
    for (int i = 0; i < 3; i++) {
        readers[i] = fork();
        if (readers[i] == 0) {
            _exit(read_rounds(open(name, O_RDONLY)));
        }
    }
    write_rounds(file);
    int status = 0;
    for (int i = 0; i < 3; i++) {
        status |= wait_for(readers[i]);
    }
    printf("at once: status %d\n", status);
    return status;
}

/* The time of a read is noted after a change, and once a day, however often the file was read before. */
static int times(void) {
    char byte;
    struct stat before, after;
    int file = open(name, O_RDWR), noted = 0;
    for (int i = 0; i < 100; i++) {
        pread(file, &byte, 1, 0);
    }
    struct timespec old[2] = {{1000000, 0}, {2000000, 0}};
    futimens(file, old);
    fstat(file, &before);
    for (int i = 0; i < 100; i++) {
        pread(file, &byte, 1, 0);
    }
    fstat(file, &after);
    noted = before.st_atime == 1000000 && after.st_atime > 2000000;
    printf("the time of a read is noted: %s\n", noted ? "yes" : "no");
    return !noted;
}

int main(void) {
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    /* The last turn is handed to nobody. */
    signal(SIGPIPE, SIG_IGN);
    all->random = 20;
    int status = play() | at_once() | times();
    unlink(name);
    return status != 0;
}
