/* Code that is written while the program runs, as compilers do: memory that is writable and executable, that becomes the one and the other, that is written at one
   address and executed at another; copies by fork; rights that are taken away while other cores use them; programs whose file asks for it. cairn-test: cores=4 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, R = PROT_READ, RW = PROT_READ | PROT_WRITE, RX = PROT_READ | PROT_EXEC, RWX = RW | PROT_EXEC };
enum { PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS, SHARED = MAP_SHARED | MAP_ANONYMOUS };
typedef int (*Function)(void);

/* mov $value, %eax; ret */
static void emit(void *at, int value) {
    unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3};
    memcpy(code + 1, &value, sizeof value);
    memcpy(at, code, sizeof code);
}
static int call(void *at) { return ((Function)(uintptr_t)at)(); }

static void *map(size_t pages, int prot, int flags, int fd) {
    void *p = mmap(NULL, pages * PAGE, prot, flags, fd, 0);
    if (p == MAP_FAILED) {
        printf("  mmap: %s\n", strerror(errno));
        exit(1);
    }
    return p;
}
static void may(void *p, int prot) { printf("%s", mprotect(p, PAGE, prot) ? strerror(errno) : "yes"); }

static sigjmp_buf back;
static volatile int code;
static void caught(int signal, siginfo_t *info, void *context) {
    (void)context;
    code = signal * 100 + info->si_code;
    siglongjmp(back, 1);
}
/* What becomes of a write to a page, or a call into it. */
static int tried(void *p, int write) {
    if (sigsetjmp(back, 1)) {
        return code;
    }
    if (write) {
        ((volatile char *)p)[PAGE - 1] = 1;
        return 0;
    }
    return call(p) & 0;
}

/* How /proc says what may be done with a page. */
static void shown(void *p) {
    char line[512], rights[8] = "";
    unsigned long from, to;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        char found[8];
        if (sscanf(line, "%lx-%lx %7s", &from, &to, found) == 3 && from <= (uintptr_t)p && (uintptr_t)p < to) {
            strcpy(rights, found);
        }
    }
    if (maps) {
        fclose(maps);
    }
    printf("%s", rights);
}

static void plainly(void) {
    char *p = map(3, RWX, PRIVATE, -1);
    int sum = 0;
    for (int i = 0; i < 1000; i++) {
        emit(p + i % 700 * 8, i);
        sum += call(p + i % 700 * 8);
    }
    printf("written and called: %d, ", sum);
    shown(p);
    char *q = mremap(p, 3 * PAGE, 5 * PAGE, MREMAP_MAYMOVE);
    printf(", moved: %d", call(q + 8));
    emit(q + 4 * PAGE, 77);
    printf(", grown: %d\n", call(q + 4 * PAGE));
    /* It writes the instruction that it executes next but one. */
    unsigned char itself[] = {0xc6, 0x05, 0x01, 0, 0, 0, 42, 0xb8, 1, 0, 0, 0, 0xc3};
    memcpy(q, itself, sizeof itself);
    printf("writes itself: %d\n", call(q));
}

static void to_and_fro(void) {
    char *p = map(2, RW, PRIVATE, -1);
    emit(p, 5);
    printf("execute data: %d\n", tried(p, 0));
    static const struct {
        const char *name;
        int prot;
    } steps[] = {{"rx", RX}, {"rw", RW}, {"rwx", RWX}, {"rx", RX}, {"r", R}, {"none", PROT_NONE}, {"rwx", RWX}, {"wx", PROT_WRITE | PROT_EXEC}, {"rw", RW}};
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        printf("  %s: ", steps[i].name);
        may(p, steps[i].prot);
        int wrote = tried(p, 1);
        printf(", write %d, call %d, ", wrote, tried(p, 0));
        shown(p);
        printf("\n");
    }
}

static void twice(void) {
    int fd = memfd_create("code", 0);
    ftruncate(fd, 2 * PAGE);
    char *w = map(2, RW, MAP_SHARED, fd), *x = map(2, RX, MAP_SHARED, fd), *a = map(2, RWX, MAP_SHARED, fd), *c = map(2, RWX, MAP_PRIVATE, fd);
    int sum = 0;
    for (int i = 0; i < 500; i++) {
        emit(w + i * 8, i);
        sum += call(x + i * 8);
    }
    printf("memfd: %d, ", sum);
    emit(a, 60);
    printf("%d %d %d, ", call(x), call(a), call(c));
    emit(c, 61);
    emit(w, 62);
    printf("%d %d %d, write %d ", call(x), call(a), call(c), tried(x, 1));
    shown(a);
    printf("\n");
}

static void of_a_file(void) {
    const char *name = "writable-code.bytes";
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    char page[PAGE] = "";
    emit(page, 11);
    write(fd, page, PAGE);
    char *s = map(1, RWX, MAP_SHARED, fd), *p = map(1, RWX, MAP_PRIVATE, fd);
    printf("file: %d %d, ", call(s), call(p));
    emit(p, 12);
    emit(s, 13);
    pread(fd, page, PAGE, 0);
    printf("%d %d, read %d, ", call(s), call(p), page[1]);
    emit(page, 14);
    pwrite(fd, page, PAGE, 0);
    printf("%d %d\n", call(s), call(p));
    int only = open(name, O_RDONLY);
    printf("  read only: ");
    char *r = mmap(NULL, PAGE, RWX, MAP_SHARED, only, 0);
    printf("%s, ", r == MAP_FAILED ? strerror(errno) : "mapped");
    r = map(1, RX, MAP_SHARED, only);
    printf("%d, ", call(r));
    may(r, RWX);
    char *own = map(1, RX, MAP_PRIVATE, only);
    printf(", private: %d, ", call(own));
    may(own, RWX);
    emit(own, 15);
    printf(", %d %d\n", call(own), call(r));
    unlink(name);
}

static void copies(void) {
    char *p = map(4, RWX, PRIVATE, -1), *s = map(1, RWX, SHARED, -1);
    for (int i = 0; i < 4; i++) {
        emit(p + i * PAGE, i);
    }
    emit(s, 0);
    int sum = 0;
    for (int child = 1; child <= 20; child++) {
        pid_t pid = fork();
        if (!pid) {
            int found = call(p) + call(p + PAGE) - (child - 1);
            emit(p + PAGE, 100 + child);
            emit(s, call(s) + 1);
            _exit(found == 1 ? call(p + PAGE) : 255);
        }
        int status;
        waitpid(pid, &status, 0);
        sum += WEXITSTATUS(status) == 100 + child;
        emit(p, child);
        sum += call(p) == child && call(p + PAGE) == 1;
    }
    printf("forks: %d, shared %d\n", sum, call(s));
}

/* What is there at the end of a call of mprotect holds on all cores. */
static char *page;
static _Atomic int stop;
static _Atomic long rounds[3], out[3];
static __thread sigjmp_buf own;
static void leave(int signal) {
    (void)signal;
    siglongjmp(own, 1);
}
static void *uses(void *argument) {
    long me = (long)argument;
    while (!stop) {
        if (sigsetjmp(own, 1)) {
            out[me]++;
            continue;
        }
        if (me) {
            rounds[me] += call(page);
        } else {
            ((volatile long *)page)[100]++;
            rounds[me]++;
        }
    }
    return NULL;
}
static void taken_away(void) {
    pthread_t threads[3];
    page = map(1, RWX, PRIVATE, -1);
    emit(page, 1);
    signal(SIGSEGV, leave);
    for (long i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, uses, (void *)i);
    }
    /* (On one core each of them waits for its turn.) */
    int wrong = 0, times = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 12 : 4;
    for (int round = 0; round < times; round++) {
        long before[3];
        for (int i = 0; i < 3; i++) {
            before[i] = rounds[i];
        }
        for (int i = 0; i < 3; i++) {
            while (rounds[i] == before[i]) {
                usleep(50);
            }
        }
        volatile long *counter = (volatile long *)page + 100;
        mprotect(page, PAGE, RX);
        long then = *counter;
        usleep(200);
        wrong += *counter != then;
        mprotect(page, PAGE, RW);
        /* A call that was begun may still be counted. */
        for (int i = 1; i < 3; i++) {
            long faults = out[i];
            while (out[i] < faults + 2) {
                usleep(50);
            }
            before[i] = rounds[i];
        }
        usleep(200);
        wrong += before[1] != rounds[1] || before[2] != rounds[2];
        mprotect(page, PAGE, RWX);
    }
    stop = 1;
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("taken away on all cores: %d wrong\n", wrong);
}

/* One thread compiles, others execute at once. */
static _Atomic(char *) newest;
static void *executes(void *argument) {
    long wrong = 0, last = 0;
    (void)argument;
    while (last < 4000) {
        char *at = newest;
        if (at) {
            int value = call(at);
            wrong += value < last;
            last = value;
        }
    }
    return (void *)wrong;
}
static void compiles(void) {
    pthread_t threads[3];
    char *pages = map(8, RWX, PRIVATE, -1);
    long wrong = 0;
    for (long i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, executes, NULL);
    }
    for (int i = 1; i <= 4000; i++) {
        emit(pages + i * 8, i);
        newest = pages + i * 8;
    }
    for (int i = 0; i < 3; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (long)result;
    }
    printf("compiled for others: %ld wrong\n", wrong);
}

/* A program of one segment, with these rights, and with a header for its stack or without one. */
static void program(const char *title, int rights, int stack, const unsigned char *text, size_t length) {
    const char *name = "./writable-code.program";
    struct {
        Elf64_Ehdr file;
        Elf64_Phdr parts[2];
        unsigned char text[64];
    } all = {
        .file = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT}, .e_type = ET_EXEC, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
                 .e_entry = 0x400000 + sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr), .e_phoff = sizeof(Elf64_Ehdr), .e_ehsize = sizeof(Elf64_Ehdr),
                 .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = stack ? 2 : 1},
        .parts = {{.p_type = PT_LOAD, .p_flags = rights, .p_vaddr = 0x400000, .p_filesz = sizeof all, .p_memsz = sizeof all, .p_align = PAGE},
                  {.p_type = PT_GNU_STACK, .p_flags = stack, .p_align = 16}},
    };
    memcpy(all.text, text, length);
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0700), status;
    write(fd, &all, sizeof all);
    close(fd);
    pid_t pid = fork();
    if (!pid) {
        execl(name, name, NULL);
        _exit(200);
    }
    waitpid(pid, &status, 0);
    printf("  %s: %s %d\n", title, WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    unlink(name);
}
static void programs(void) {
    /* movb $7, 1(next); mov $1, %edi; mov $60, %eax; syscall */
    static const unsigned char itself[] = {0xc6, 0x05, 1, 0, 0, 0, 7, 0xbf, 1, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05};
    /* movb $0xc3, -1(%rsp); lea -1(%rsp), %rax; sub $64, %rsp; call *%rax; mov $9, %edi; mov $60, %eax; syscall */
    static const unsigned char on_stack[] = {0xc6, 0x44, 0x24, 0xff, 0xc3, 0x48, 0x8d, 0x44, 0x24, 0xff, 0x48, 0x83, 0xec, 64, 0xff, 0xd0, 0xbf, 9, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05};
    printf("programs\n");
    program("text that can be written", PF_R | PF_W | PF_X, PF_R | PF_W, itself, sizeof itself);
    program("text as usual", PF_R | PF_X, PF_R | PF_W, itself, sizeof itself);
    program("stack with code", PF_R | PF_X, PF_R | PF_W | PF_X, on_stack, sizeof on_stack);
    program("stack as usual", PF_R | PF_X, PF_R | PF_W, on_stack, sizeof on_stack);
    program("nothing said of the stack", PF_R | PF_X, 0, on_stack, sizeof on_stack);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    setvbuf(stdout, NULL, _IOLBF, 0);
    sigaction(SIGSEGV, &action, NULL);
    plainly();
    to_and_fro();
    twice();
    of_a_file();
    copies();
    programs();
    taken_away();
    compiles();
    return 0;
}
