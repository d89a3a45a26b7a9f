/* Open files outlive their server: in the folder given, writers, readers, locks, mappings and files without names go on while the file server is killed again and again, at whatever it is doing. What was synced is there; who is not told of a loss has lost nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLS = 8, RECORD = 48, LARGE = 300000, PAGE = 4096, MAPPED = 70, CHILDREN = 5 };

/* Seen by all processes. */
static struct {
    volatile int stop;
    volatile int told[8], done[8];
} *all;

#define CHECK(what)                                                           \
    do {                                                                      \
        if (!(what)) {                                                        \
            printf("line %d: %s (errno %d)\n", __LINE__, #what, errno);       \
            fflush(stdout);                                                   \
            if (all) all->stop = 1;                                           \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

static unsigned char byte_of(unsigned i) { return (unsigned char)(i * 7 + (i >> 8) * 13 + (i >> 16)); }

/* The server's domain, by the newest line of the log that names it. */
static unsigned domain(void) {
    static char text[1 << 20];
    int length = klogctl(3, text, sizeof text - 1);
    CHECK(length > 0);
    text[length] = 0;
    static const char words[] = "`ext4` is domain ";
    unsigned found = 0;
    for (char *at = text; (at = strstr(at, words)); at++) found = (unsigned)strtoul(at + sizeof words - 1, 0, 10);
    CHECK(found != 0);
    return found;
}

/* The server dies at its n-th entry of the nucleus from now; wait for the next one. */
static void kill_server(int n) {
    unsigned old = domain();
    int control = open("/trace/control", O_WRONLY);
    CHECK(control >= 0);
    char line[64];
    int length = snprintf(line, sizeof line, "kill %d %u", n, old & 0xfffff);
    CHECK(write(control, line, length) == length);
    close(control);
    for (int i = 0; domain() == old; i++) {
        struct stat about;
        CHECK(i < 3000);
        stat("/mnt/.", &about);
        usleep(10000);
    }
}

static void record(char *at, uint64_t number) {
    memset(at, (int)('a' + number % 26), RECORD);
    memcpy(at, &number, sizeof number);
}

/* Records one after the other, synced now and then. What was synced is there, whatever happens; what was not may be lost, and then we are told. */
static void writer(int me, int fd, int appends) {
    uint64_t synced = 0;
    char one[RECORD], two[RECORD];
    unsigned state = 77u + (unsigned)me;
    while (!all->stop) {
        uint64_t next = synced;
        int lost = 0;
        if (!appends) CHECK(lseek(fd, (off_t)(synced * RECORD), SEEK_SET) >= 0);
        else
            while (ftruncate(fd, (off_t)(synced * RECORD)) != 0) CHECK(errno == EIO);
        for (int i = 0; i < 20 && !lost; i++) {
            record(one, next);
            ssize_t count = write(fd, one, RECORD);
            CHECK(count == RECORD || (count < 0 && errno == EIO));
            lost = count < 0;
            next += (uint64_t)!lost;
        }
        if (!lost) lost = fsync(fd) != 0;
        if (lost) {
            CHECK(errno == EIO);
            all->told[me]++;
            continue;
        }
        synced = next;
        all->done[me]++;
        state = state * 1664525 + 1013904223;
        uint64_t some = state % synced;
        record(one, some);
        CHECK(pread(fd, two, RECORD, (off_t)(some * RECORD)) == RECORD);
        CHECK(memcmp(one, two, RECORD) == 0);
    }
    if (fsync(fd) != 0) CHECK(errno == EIO);
    for (uint64_t i = 0; i < synced; i++) {
        record(one, i);
        ssize_t count = pread(fd, two, RECORD, (off_t)(i * RECORD));
        CHECK(count == RECORD && memcmp(one, two, RECORD) == 0);
    }
    exit(0);
}

/* A file that is only read gives all its bytes in order, and never an error. */
static void reader(int me, int fd) {
    unsigned at = 0;
    static unsigned char some[5000];
    while (!all->stop) {
        size_t length = 1 + (at * 31u) % sizeof some;
        ssize_t count = read(fd, some, length);
        CHECK(count >= 0);
        if (count == 0) {
            CHECK(at == LARGE);
            CHECK(lseek(fd, 0, SEEK_SET) == 0);
            at = 0;
            all->done[me]++;
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        }
        for (ssize_t i = 0; i < count; i++) CHECK(some[i] == byte_of(at + (unsigned)i));
        at += (unsigned)count;
        CHECK(lseek(fd, 0, SEEK_CUR) == (off_t)at);
    }
    exit(0);
}

/* Names come and go. What was not committed may be as before. */
static void names(int me) {
    for (int i = 0; !all->stop; i++) {
        char from[64], to[64];
        snprintf(from, sizeof from, "n%d", i % 9);
        snprintf(to, sizeof to, "dir/m%d", i % 7);
        int fd = open(from, O_CREAT | O_EXCL | O_WRONLY, 0644);
        CHECK(fd >= 0 || errno == EEXIST);
        if (fd >= 0) close(fd);
        CHECK(rename(from, to) == 0 || errno == ENOENT);
        CHECK(i % 3 || unlink(to) == 0 || errno == ENOENT);
        struct stat about;
        CHECK(stat("dir", &about) == 0 && S_ISDIR(about.st_mode));
        all->done[me]++;
    }
    exit(0);
}

static int locked(const char *path) {
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_RDWR);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 1};
        int held = fd >= 0 && fcntl(fd, F_SETLK, &lock) < 0 && errno == EAGAIN;
        held += fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EAGAIN;
        _exit(held);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* What was written through a mapping before the server's death is there after it, in the mapping and for read. A loss may be told (falsely) once. */
static void mapped_bytes(const volatile unsigned char *map, int fd, int rounds) {
    for (int page = 0; page < MAPPED; page++)
        for (int i = 0; i < rounds; i++) {
            off_t at = (off_t)page * PAGE + i;
            unsigned char byte;
            ssize_t count = pread(fd, &byte, 1, at);
            if (count < 0 && errno == EIO) count = pread(fd, &byte, 1, at);
            CHECK(map[at] == i + 1);
            CHECK(count == 1 && byte == i + 1);
        }
}

static void see_all(void) {
    int fd = open("/tmp/outlives", O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0);
    all = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(all != MAP_FAILED);
    close(fd);
}

/* What is written through a mapping at the very moment of a death, or while the successor takes the page over, does not go back. This is a program from elsewhere, which needs no page of its own from the server. */
static void counter(int me) {
    int alone = sysconf(_SC_NPROCESSORS_ONLN) == 1, file = open("counted", O_RDWR);
    volatile uint64_t *map = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(file >= 0 && map != MAP_FAILED);
    see_all();
    for (uint64_t n = 1; !all->stop; n++) {
        volatile uint64_t *at = map + n % 3 * (PAGE / 8);
        uint64_t before = n > 3 ? n - 3 : 0;
        CHECK(*at == before);
        *at = n;
        all->done[me]++;
        if (alone && n % 4096 == 0) usleep(100);
    }
    exit(0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2 && chdir(argv[1]) == 0);
    if (strcmp(argv[0], "counter") == 0) counter(4);
    see_all();
    CHECK(mkdir("dir", 0755) == 0);
    int large = open("large", O_CREAT | O_RDWR, 0644), nameless = open("gone", O_CREAT | O_RDWR, 0600);
    CHECK(large >= 0 && nameless >= 0);
    static unsigned char bytes[LARGE];
    for (unsigned i = 0; i < LARGE; i++) bytes[i] = byte_of(i);
    CHECK(write(large, bytes, LARGE) == LARGE && write(nameless, bytes, LARGE) == LARGE);
    CHECK(unlink("gone") == 0);
    int plain = open("plain", O_CREAT | O_RDWR, 0644), appended = open("appended", O_CREAT | O_RDWR | O_APPEND, 0644);
    CHECK(plain >= 0 && appended >= 0);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 90, .l_len = 20};
    CHECK(fcntl(large, F_SETLK, &lock) == 0 && flock(large, LOCK_EX) == 0);
    int file = open("mapped", O_CREAT | O_RDWR, 0644);
    CHECK(file >= 0 && ftruncate(file, MAPPED * PAGE) == 0);
    sync();
    volatile unsigned char *map = mmap(0, MAPPED * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    volatile unsigned char *copy = mmap(0, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, large, 0);
    CHECK(map != MAP_FAILED && copy != MAP_FAILED);
    copy[7] = 99;
    int lonely = open("lonely", O_CREAT | O_RDWR, 0644);
    CHECK(lonely >= 0 && write(lonely, "x", 1) == 1);
    int counted = open("counted", O_CREAT | O_RDWR, 0644);
    CHECK(counted >= 0 && ftruncate(counted, 3 * PAGE) == 0 && fsync(counted) == 0);
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        fflush(stdout);
        if ((children[i] = fork()) != 0) continue;
        int own = open("large", O_RDONLY);
        CHECK(own >= 0);
        i == 0 ? writer(0, plain, 0) : i == 1 ? writer(1, appended, 1) : i == 2 ? reader(2, own) : i == 3 ? names(3) : (void)execl("/tests/outlives", "counter", argv[1], (char *)0);
        CHECK(0);
    }
    for (int i = 0; i < KILLS; i++) {
        int before[CHILDREN];
        for (int k = 0; k < CHILDREN; k++) before[k] = all->done[k];
        for (int page = 0; page < MAPPED; page++) map[page * PAGE + i] = (unsigned char)(i + 1);
        kill_server(1 + i * 197 % 700);
        mapped_bytes(map, file, i + 1);
        for (unsigned k = 4096u * 8 * (unsigned)i; k < 4096u * 8 * (unsigned)(i + 1) && k < LARGE; k += 512) CHECK(copy[k] == byte_of(k));
        CHECK(copy[7] == 99);
        /* The shared position, the file without a name, the locks. */
        unsigned at = (unsigned)i * 20000;
        static unsigned char some[20000];
        CHECK(lseek(nameless, (off_t)at % LARGE, SEEK_SET) >= 0);
        ssize_t count = read(nameless, some, sizeof some);
        CHECK(count > 0);
        for (ssize_t k = 0; k < count; k++) CHECK(some[k] == byte_of(at % LARGE + (unsigned)k));
        struct stat about;
        CHECK(fstat(nameless, &about) == 0 && about.st_nlink == 0 && about.st_size == LARGE);
        CHECK(locked("large") == 2);
        /* Everybody goes on. */
        for (int k = 0; k < CHILDREN; k++)
            for (int tries = 0; all->done[k] == before[k]; tries++) {
                int status = 0, ended = waitpid(children[k], &status, WNOHANG) != 0;
                if (ended) printf("child %d ended with %#x after %d rounds\n", k, (unsigned)status, all->done[k]);
                CHECK(!ended && tries < 6000);
                usleep(10000);
            }
    }
    CHECK(msync((void *)map, MAPPED * PAGE, MS_SYNC) == 0);
    /* What was never on the disk is an error, once or for ever, and nothing else. */
    char x;
    CHECK(pread(lonely, &x, 1, 0) < 0 ? errno == EIO : x == 'x');
    all->stop = 1;
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        CHECK(waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    CHECK(unlink("counted") == 0 && unlink("/tmp/outlives") == 0);
    lock.l_type = F_UNLCK;
    CHECK(fcntl(large, F_SETLK, &lock) == 0 && flock(large, LOCK_UN) == 0 && locked("large") == 0);
    fprintf(stderr, "told of losses: %d and %d times; rounds: %d, %d, %d, %d\n", all->told[0], all->told[1], all->done[0], all->done[1], all->done[2], all->done[3]);
    puts("good");
    return 0;
}
