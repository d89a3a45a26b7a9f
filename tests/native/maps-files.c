/* Files of a server that has not all of them in memory, in the folder given (paged.rs; ext4): pages that come when they are touched, writes through shared mappings that the server must hear of, buffers that are missing pages of such
 * files themselves, a large program of which little is read. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 2000, WORDS = PAGE / 8 };

#define CHECK(what)                                                           \
    do {                                                                      \
        if (!(what)) {                                                        \
            printf("line %d: %s (errno %d)\n", __LINE__, #what, errno);       \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

static char data[64], program[64];
static int small;

static uint64_t state = 88172645463325252;

static uint64_t below(uint64_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

/* What word `word` of page `page` is in its `version`. */
static uint64_t word_of(uint64_t page, uint64_t word, uint64_t version) {
    return page << 40 | word << 24 | version;
}

static uint64_t version[PAGES];

static void fill(uint64_t *at, uint64_t page) {
    for (uint64_t w = 0; w < WORDS; w += 64) at[w] = word_of(page, w, version[page]);
}

static int is(const uint64_t *at, uint64_t page, uint64_t v) {
    for (uint64_t w = 0; w < WORDS; w += 64)
        if (at[w] != word_of(page, w, v)) return 0;
    return 1;
}

static sigjmp_buf back;
static void bus(int n) {
    (void)n;
    siglongjmp(back, 1);
}

/* Reads, writes by calls and writes through mappings agree, whatever the server gives up meanwhile. */
static void agree(void) {
    int fd = open(data, O_RDWR | O_TRUNC | O_CREAT, 0644);
    CHECK(fd >= 0);
    CHECK(ftruncate(fd, PAGES * PAGE) == 0);
    uint64_t *shared = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    uint64_t *second = mmap(0, PAGES * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    uint64_t *private = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(shared != MAP_FAILED && second != MAP_FAILED && private != MAP_FAILED);
    for (uint64_t page = 0; page < PAGES; page++) {
        version[page] = 1;
        fill(shared + page * WORDS, page);
    }
    static uint64_t buffer[WORDS];
    static uint64_t own[PAGES];
    for (int i = 0; i < 6000; i++) {
        uint64_t page = below(PAGES);
        uint64_t *at = shared + page * WORDS;
        switch (below(8)) {
        case 0:
        case 1:
            CHECK(is(at, page, version[page]));
            CHECK(is(second + page * WORDS, page, version[page]));
            break;
        case 2:
        case 3:
            version[page]++;
            fill(at, page);
            break;
        case 4:
            version[page]++;
            memset(buffer, 0, sizeof buffer);
            fill(buffer, page);
            CHECK(pwrite(fd, buffer, PAGE, page * PAGE) == PAGE);
            break;
        case 5:
            CHECK(pread(fd, buffer, PAGE, page * PAGE) == PAGE);
            CHECK(is(buffer, page, version[page]));
            break;
        case 6:
            if (!own[page]) {
                own[page] = version[page];
                private[page * WORDS] = word_of(page, 0, own[page]);
            }
            CHECK(is(private + page * WORDS, page, own[page]));
            break;
        default:
            /* The buffer is a page of the file that is missing, most likely: from there, and to there. */
            if (page + 1 < PAGES) {
                CHECK(pread(fd, at, PAGE, (page + 1) * PAGE) == PAGE);
                CHECK(is(at, page + 1, version[page + 1]));
                version[page]++;
                fill(at, page);
                uint64_t other = below(PAGES);
                CHECK(pwrite(fd, at, PAGE, other * PAGE) == PAGE);
                CHECK(is(shared + other * WORDS, page, version[page]));
                version[other]++;
                fill(shared + other * WORDS, other);
            }
        }
    }
    CHECK(msync(shared, PAGES * PAGE, MS_SYNC) == 0);
    CHECK(fsync(fd) == 0);
    for (uint64_t page = 0; page < PAGES; page++) {
        CHECK(is(shared + page * WORDS, page, version[page]));
        if (own[page]) CHECK(is(private + page * WORDS, page, own[page]));
    }
    CHECK(munmap(shared, PAGES * PAGE) == 0 && munmap(second, PAGES * PAGE) == 0);
    for (uint64_t page = 0; page < PAGES; page++) {
        CHECK(pread(fd, buffer, PAGE, page * PAGE) == PAGE);
        CHECK(is(buffer, page, version[page]));
    }
    close(fd);
    fprintf(stderr, "agree\n");
}

/* A pipe's end, /dev/null and others take what is not there yet. */
static void others(void) {
    int fd = open(data, O_RDWR);
    char *at = mmap(0, PAGES * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    int ends[2];
    CHECK(at != MAP_FAILED && pipe(ends) == 0);
    uint64_t buffer[WORDS];
    for (int i = 0; i < 40; i++) {
        uint64_t page = below(PAGES);
        CHECK(write(ends[1], at + page * PAGE, PAGE) == PAGE);
        CHECK(read(ends[0], buffer, PAGE) == PAGE);
        CHECK(is(buffer, page, version[page]));
    }
    unsigned char there[PAGES];
    CHECK(mincore(at, PAGES * PAGE, there) == 0);
    int resident = 0;
    for (int i = 0; i < PAGES; i++) resident += there[i];
    CHECK(resident > 0 && (!small || resident < PAGES / 2));
    CHECK(madvise(at, 16 * PAGE, MADV_WILLNEED) == 0);
    CHECK(madvise(at, 100 * PAGE, 22 /* MADV_POPULATE_READ */) == 0);
    close(fd);
    munmap(at, PAGES * PAGE);
    fprintf(stderr, "others\n");
}

static void *toucher(void *argument) {
    uint64_t *at = argument;
    for (int i = 0; i < 400; i++) {
        uint64_t page = (uint64_t)rand() % PAGES;
        if (!is(at + page * WORDS, page, version[page])) return "wrong";
    }
    return 0;
}

/* Several threads and processes wait at once; some are killed while they do. */
static void many(void) {
    int fd = open(data, O_RDWR);
    uint64_t *at = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    for (int round = 0; round < 12; round++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t threads[4];
            for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, toucher, at);
            for (int i = 0; i < 4; i++) {
                void *wrong;
                pthread_join(threads[i], &wrong);
                if (wrong) _exit(1);
            }
            _exit(0);
        }
        int status;
        if (round % 3 == 0) {
            toucher(at);
            usleep(1000 * below(20));
            kill(child, SIGKILL);
            CHECK(waitpid(child, &status, 0) == child);
            continue;
        }
        CHECK(toucher(at) == 0);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    close(fd);
    munmap(at, PAGES * PAGE);
    fprintf(stderr, "many\n");
}

/* Cut while it is mapped. */
static void cut(void) {
    int fd = open(data, O_RDWR);
    volatile uint64_t *at = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    at[300 * WORDS] = 7;
    CHECK(ftruncate(fd, 300 * PAGE + 100) == 0);
    CHECK(at[300 * WORDS] == 7 && at[300 * WORDS + 20] == 0);
    signal(SIGBUS, bus);
    for (int page = 301; page < PAGES; page += 400)
        if (sigsetjmp(back, 1) == 0) {
            at[page * WORDS] = 1;
            CHECK(!"beyond the end");
        }
    CHECK(ftruncate(fd, PAGES * PAGE) == 0);
    CHECK(at[301 * WORDS] == 0 && at[1999 * WORDS] == 0);
    at[1999 * WORDS] = 5;
    uint64_t word;
    CHECK(pread(fd, &word, 8, 1999 * PAGE) == 8 && word == 5);
    close(fd);
    fprintf(stderr, "cut\n");
}

/* A program of 200 MB: only what it touches is read. */
static void large(void) {
    int fd = open(program, O_RDWR | O_TRUNC | O_CREAT, 0755);
    static struct {
        Elf64_Ehdr head;
        Elf64_Phdr parts[2];
        unsigned char code[64];
    } elf;
    memcpy(elf.head.e_ident, ELFMAG, SELFMAG);
    elf.head.e_ident[EI_CLASS] = ELFCLASS64;
    elf.head.e_ident[EI_DATA] = ELFDATA2LSB;
    elf.head.e_ident[EI_VERSION] = EV_CURRENT;
    elf.head.e_type = ET_EXEC;
    elf.head.e_machine = EM_X86_64;
    elf.head.e_version = EV_CURRENT;
    elf.head.e_phoff = sizeof elf.head;
    elf.head.e_ehsize = sizeof elf.head;
    elf.head.e_phentsize = sizeof elf.parts[0];
    elf.head.e_phnum = 2;
    uint64_t base = 0x400000, size = 200 << 20, data = 0x20000000;
    elf.head.e_entry = base + ((char *)elf.code - (char *)&elf);
    elf.parts[0] = (Elf64_Phdr){PT_LOAD, PF_R | PF_X, 0, base, base, size, size, PAGE};
    elf.parts[1] = (Elf64_Phdr){PT_LOAD, PF_R | PF_W, 0, data, data, size, size, PAGE};
    /* mov edi, [base + 150 MB]; mov [data + 100 MB], edi; mov eax, 60; syscall */
    unsigned char code[] = {0x8b, 0x3c, 0x25, 0, 0, 0, 0, 0x89, 0x3c, 0x25, 0, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05};
    uint32_t from = base + (150 << 20), to = data + (100 << 20);
    memcpy(code + 3, &from, 4);
    memcpy(code + 10, &to, 4);
    memcpy(elf.code, code, sizeof code);
    CHECK(write(fd, &elf, sizeof elf) == sizeof elf);
    CHECK(ftruncate(fd, size) == 0);
    unsigned char status = 42;
    CHECK(pwrite(fd, &status, 1, 150 << 20) == 1);
    close(fd);
    for (int i = 0; i < 3; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execl(program, "large", NULL);
            _exit(1);
        }
        int result;
        CHECK(waitpid(child, &result, 0) == child);
        CHECK(WIFEXITED(result) && WEXITSTATUS(result) == 42);
    }
    fprintf(stderr, "large\n");
}

int main(int count, char **arguments) {
    if (count < 2) return 1;
    snprintf(data, sizeof data, "%s/data", arguments[1]);
    snprintf(program, sizeof program, "%s/large", arguments[1]);
    /* The server's cache is smaller than the file. */
    small = count > 2;
    agree();
    others();
    many();
    cut();
    large();
    unlink(data);
    unlink(program);
    puts("good");
    return 0;
}
