/* Core files: which signals leave one, where and how it is called, what it holds, RLIMIT_CORE, and who leaves none. */
// cairn-test: time=40
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/procfs.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long mark = 0x1122334455667788;
static char *heap;
static int ready[2];

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    fflush(stdout);
    _exit(9);
}

static void limit(rlim_t soft) {
    struct rlimit limit = {soft, RLIM_INFINITY};
    if (setrlimit(RLIMIT_CORE, &limit))
        fail("setrlimit");
}

static void pattern(const char *text) {
    int file = open("/proc/sys/kernel/core_pattern", O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text))
        fail("core_pattern");
    close(file);
}

/* Run a child to its end; say how that was. */
static int end(const char *what, void (*run)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        run();
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        printf("%s: killed by %d, core %d", what, WTERMSIG(status), WCOREDUMP(status) != 0);
    else
        printf("%s: ended with %d", what, WEXITSTATUS(status));
    return pid;
}

/* Is there such a file? Away with it. */
static void is_there(const char *name) {
    struct stat stat;
    if (lstat(name, &stat))
        printf(", no %s\n", name);
    else
        printf(", %s of mode %o, user %d\n", name, stat.st_mode, stat.st_uid);
    unlink(name);
}

static int number;
static void by_signal(void) {
    raise(number);
}
static void by_fault(void) {
    *(volatile int *)16 = 1;
}
static void by_abort(void) {
    abort();
}
static void limited(void) {
    limit(8192);
    abort();
}
static void without(void) {
    limit(0);
    abort();
}
static void hidden(void) {
    prctl(PR_SET_DUMPABLE, 0);
    abort();
}
static void other_user(void) {
    if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
        _exit(9);
    abort();
}
static void other_user_shown(void) {
    if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
        _exit(9);
    prctl(PR_SET_DUMPABLE, 1);
    abort();
}
static void *wait_here(void *argument) {
    char byte;
    if (write(ready[1], "", 1) == 1)
        while (read(ready[0], &byte, 0) == 0)
            pause();
    return argument;
}
static void with_threads(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, wait_here, NULL);
    char byte;
    for (int i = 0; i < 3; i++)
        if (read(ready[0], &byte, 1) != 1)
            _exit(9);
    usleep(20000);
    by_fault();
}

static char *file;
static size_t size;

/* What the file has of this address. */
static void *memory(uint64_t address, size_t length) {
    Elf64_Ehdr *head = (Elf64_Ehdr *)file;
    Elf64_Phdr *program = (Elf64_Phdr *)(file + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++)
        if (program[i].p_type == PT_LOAD && address >= program[i].p_vaddr && address + length <= program[i].p_vaddr + program[i].p_filesz && program[i].p_offset + program[i].p_filesz <= size)
            return file + program[i].p_offset + (address - program[i].p_vaddr);
    return NULL;
}

static void look(const char *name, pid_t pid) {
    struct stat stat;
    int core = open(name, O_RDONLY);
    if (core < 0 || fstat(core, &stat))
        fail(name);
    size = stat.st_size;
    file = mmap(NULL, size, PROT_READ, MAP_PRIVATE, core, 0);
    if (file == MAP_FAILED)
        fail("mmap");
    Elf64_Ehdr *head = (Elf64_Ehdr *)file;
    printf("  ELF %d, type %d, machine %d\n", !memcmp(head->e_ident, ELFMAG, 4), head->e_type, head->e_machine);
    Elf64_Phdr *program = (Elf64_Phdr *)(file + head->e_phoff);
    int threads = 0, faulty = 0;
    for (int i = 0; i < head->e_phnum; i++) {
        if (program[i].p_type != PT_NOTE)
            continue;
        for (size_t at = program[i].p_offset; at < program[i].p_offset + program[i].p_filesz;) {
            Elf64_Nhdr *note = (Elf64_Nhdr *)(file + at);
            char *bytes = file + at + sizeof *note + ((note->n_namesz + 3) & ~3u);
            at = bytes - file + ((note->n_descsz + 3) & ~3u);
            struct elf_prstatus *status = (void *)bytes;
            struct elf_prpsinfo *about = (void *)bytes;
            siginfo_t *info = (void *)bytes;
            switch (note->n_type) {
            case NT_PRSTATUS:
                if (threads++ == 0)
                    printf("  prstatus: %u bytes, signal %d, pid %d, parent %d\n", note->n_descsz, status->pr_cursig, status->pr_pid == pid, status->pr_ppid == getpid());
                struct user_regs_struct *registers = (void *)&status->pr_reg;
                if (!memory(registers->rsp, 8))
                    faulty++;
                break;
            case NT_PRPSINFO:
                printf("  prpsinfo: %u bytes, `%s`, pid %d, user %u, arguments `%.20s`\n", note->n_descsz, about->pr_fname, about->pr_pid == pid, about->pr_uid, strrchr(about->pr_psargs, '/') ? "a path" : about->pr_psargs);
                break;
            case NT_SIGINFO:
                printf("  siginfo: %u bytes, signal %d, code %d, address %p\n", note->n_descsz, info->si_signo, info->si_code, info->si_signo == SIGSEGV ? info->si_addr : NULL);
                break;
            case NT_AUXV:
                printf("  auxv: %d\n", note->n_descsz % 16 == 0 && ((Elf64_auxv_t *)bytes)[note->n_descsz / 16 - 1].a_type == AT_NULL);
                break;
            case NT_FPREGSET:
                if (threads == 1)
                    printf("  fpregset: %u bytes\n", note->n_descsz);
                break;
            }
        }
    }
    printf("  threads %d, without their stack %d\n", threads, faulty);
    long *value = memory((uint64_t)&mark, sizeof mark);
    printf("  data %d", value && *value == mark);
    char *bytes = memory((uint64_t)heap, 3 * 4096);
    printf(", heap %s, %d %d\n", bytes ? bytes : "gone", bytes && bytes[4096] == 0, bytes && bytes[8192] == 5);
    munmap(file, size);
    close(core);
    unlink(name);
}

int main(void) {
    alarm(35);
    char folder[] = "/tmp/coresXXXXXX";
    if (!mkdtemp(folder) || chdir(folder) || chmod(folder, 0777))
        fail("folder");
    pattern("core");
    limit(RLIM_INFINITY);
    prctl(PR_SET_DUMPABLE, 1);
    for (number = 1; number < 32; number++) {
        if (number == SIGCHLD || number == SIGCONT || number == SIGURG || number == SIGWINCH || (number >= SIGSTOP && number <= SIGTTOU))
            continue;
        char what[20];
        snprintf(what, sizeof what, "signal %d", number);
        end(what, by_signal);
        is_there("core");
    }
    heap = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(heap, "text");
    heap[8192] = 5;
    mprotect(heap + 3 * 4096, 4096, PROT_NONE);
    pid_t pid = end("fault", by_fault);
    printf("\n");
    look("core", pid);
    pid = end("abort", by_abort);
    printf("\n");
    look("core", pid);
    if (pipe(ready))
        fail("pipe");
    pid = end("threads", with_threads);
    printf("\n");
    look("core", pid);
    end("limit of two pages", limited);
    struct stat stat;
    printf(", %s", lstat("core", &stat) ? "no file" : stat.st_size <= 8192 ? "short" : "long");
    is_there("core");
    end("limit 0", without);
    is_there("core");
    end("not dumpable", hidden);
    is_there("core");
    end("another user", other_user);
    is_there("core");
    end("another user, dumpable", other_user_shown);
    is_there("core");
    /* (Whether the status tells of a core file then is not the same in all versions.) */
    if (symlink("elsewhere", "core"))
        fail("symlink");
    fflush(stdout);
    if (fork() == 0)
        abort();
    wait(NULL);
    printf("symbolic link");
    is_there("elsewhere");
    unlink("core");
    mkdir("core", 0700);
    end("folder", by_abort);
    printf("\n");
    rmdir("core");
    pattern("c.%s.%u.%g.%%.%e");
    end("pattern", by_abort);
    is_there("c.6.0.0.%.core-files");
    mkdir("sub", 0700);
    pattern("sub/c-%p");
    pid = end("pattern with a folder", by_abort);
    char name[40];
    snprintf(name, sizeof name, "sub/c-%d", pid);
    printf(", %s\n", access(name, F_OK) ? "none" : "there");
    unlink(name);
    rmdir("sub");
    pattern("core");
    if (chdir("/") || rmdir(folder))
        fail("not empty");
    return 0;
}
