/* Files of /proc/PID that debuggers read: environ, auxv, mem, syscall; whose they are, and what they say of a program that has begun anew. */
// cairn-test: time=30
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    fflush(stdout);
    _exit(9);
}

static const char *result(long value) {
    return value >= 0 ? "ok" : strerror(errno);
}

static int open_of(pid_t pid, const char *name, int flags) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return open(path, flags);
}

static size_t read_of(pid_t pid, const char *name, char *into, size_t room) {
    int file = open_of(pid, name, O_RDONLY);
    if (file < 0)
        fail(name);
    size_t length = 0;
    for (ssize_t got; length < room && (got = read(file, into + length, room - length)) > 0;)
        length += got;
    close(file);
    return length;
}

static char bytes[1 << 20];

/* What AT_x of a vector is. */
static uint64_t entry_of(size_t length, uint64_t type) {
    Elf64_auxv_t *vector = (Elf64_auxv_t *)bytes;
    for (size_t i = 0; i < length / sizeof *vector; i++)
        if (vector[i].a_type == type)
            return vector[i].a_un.a_val;
    return 0;
}

static void test_own(void) {
    static const unsigned types[] = {AT_PHDR, AT_PHENT, AT_PHNUM, AT_PAGESZ, AT_BASE, AT_ENTRY, AT_UID, AT_EUID, AT_SECURE, AT_RANDOM, AT_EXECFN, AT_SYSINFO_EHDR};
    size_t length = read_of(getpid(), "auxv", bytes, sizeof bytes);
    printf("auxv: whole entries %d, the last is AT_NULL %d\n", length % 16 == 0, length >= 16 && ((Elf64_auxv_t *)bytes)[length / 16 - 1].a_type == AT_NULL);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        printf("%u: the same %d\n", types[i], entry_of(length, types[i]) == getauxval(types[i]));
    /* What is written over is seen. */
    char *mark = getenv("MARK");
    if (mark)
        memcpy(mark, "seen", 4);
    length = read_of(getpid(), "environ", bytes, sizeof bytes - 1);
    size_t strings = 0, sum = 0;
    for (size_t at = 0; at < length; at += strlen(bytes + at) + 1)
        strings++;
    for (size_t i = 0; i < length; i++)
        sum = sum * 31 + (unsigned char)bytes[i];
    printf("environ: %zu bytes, %zu strings, sum %zx, ends with NUL %d, begins with `%.40s`\n", length, strings, sum, length && !bytes[length - 1], bytes);
}

/* A child that waits as another program. */
static pid_t begin(const char *how, char **environment) {
    int ready[2];
    if (pipe(ready))
        fail("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ready[1], 3);
        execle("/proc/self/exe", "process-files", how, NULL, environment);
        fail("exec");
    }
    close(ready[1]);
    char byte;
    if (read(ready[0], &byte, 1) != 1)
        fail("ready");
    close(ready[0]);
    return pid;
}

static void end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void test_others(void) {
    static char large[100001];
    memset(large, 'x', 100000);
    memcpy(large, "L=", 2);
    char *few[] = {"A=1", "MARK=none", "", NULL}, *none[] = {NULL}, *much[] = {large, large, large, "E=2", NULL};
    char **all[] = {few, none, much};
    for (int i = 0; i < 3; i++) {
        pid_t pid = begin("waits", all[i]);
        size_t length = read_of(pid, "environ", bytes, sizeof bytes);
        printf("environ of another: %zu bytes, `%.20s`, ends with `%s`\n", length, bytes, length > 4 ? bytes + length - 4 : "");
        length = read_of(pid, "auxv", bytes, sizeof bytes);
        printf("auxv of another: page %lu, entries of program headers %lu\n", entry_of(length, AT_PAGESZ), entry_of(length, AT_PHENT));
        memset(bytes, 0, sizeof bytes);
        end(pid);
    }
}

static void test_rights(void) {
    char *none[] = {"SECRET=1", NULL};
    pid_t roots = begin("waits", none), hidden = begin("hidden", none), same = begin("same", none);
    struct stat stat;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", same);
    if (lstat(path, &stat))
        fail("stat");
    printf("environ: mode %o, user %d\n", stat.st_mode, stat.st_uid);
    fflush(stdout);
    pid_t user = fork();
    if (user == 0) {
        if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
            _exit(9);
        pid_t all[] = {roots, hidden, same};
        static const char *const names[] = {"root's", "its own, not dumpable", "its own"};
        for (int i = 0; i < 3; i++) {
            printf("user 1000, %s: auxv %s", names[i], result(open_of(all[i], "auxv", O_RDONLY)));
            printf(", mem %s", result(open_of(all[i], "mem", O_RDONLY)));
            printf(", to write %s", result(open_of(all[i], "mem", O_RDWR)));
            printf(", syscall %s", result(open_of(all[i], "syscall", O_RDONLY)));
            printf(", environ %s", result(open_of(all[i], "environ", O_RDONLY)));
            printf(", to write %s\n", result(open_of(all[i], "environ", O_WRONLY)));
        }
        fflush(stdout);
        _exit(0);
    }
    waitpid(user, NULL, 0);
    end(roots);
    end(hidden);
    end(same);
}

static volatile long word = 1234;
static const volatile long constant = 77;
static long nothing[2];
static void *volatile nowhere = (void *)8;

static const char *moved(ssize_t count, ssize_t wanted) {
    static char text[40];
    if (count == wanted)
        return "all";
    snprintf(text, sizeof text, "%zd", count);
    return count < 0 ? strerror(errno) : text;
}

static void test_memory(void) {
    int hold[2];
    if (pipe(hold))
        fail("pipe");
    pid_t child = fork();
    if (child == 0) {
        char byte;
        while (read(hold[0], &byte, 1) == 1 && byte == 'g')
            ;
        if (byte == 'e') {
            char *none[] = {NULL};
            dup2(open("/dev/null", O_WRONLY), 3);
            execle("/proc/self/exe", "process-files", "waits", NULL, none);
        }
        _exit(word == 99 ? 5 : 6);
    }
    int file = open_of(child, "mem", O_RDWR);
    long value = 0;
    printf("mem: read %s, ", moved(pread(file, &value, sizeof value, (off_t)&word), sizeof value));
    printf("%ld, ", value);
    value = 99;
    printf("write %s, ", moved(pwrite(file, &value, sizeof value, (off_t)&word), sizeof value));
    value = 0;
    printf("again %s, ", moved(pread(file, &value, sizeof value, (off_t)&word), sizeof value));
    printf("%ld, here %ld\n", value, word);
    value = 78;
    printf("constant: write %s, ", moved(pwrite(file, &value, sizeof value, (off_t)&constant), sizeof value));
    value = 0;
    printf("read %s, ", moved(pread(file, &value, sizeof value, (off_t)&constant), sizeof value));
    printf("%ld, here %ld\n", value, constant);
    printf("nothing there: %s, ", moved(pread(file, &value, 8, 4096), 8));
    printf("write %s\n", moved(pwrite(file, &value, 8, 4096), 8));
    printf("position: seek %d, ", lseek(file, (off_t)&word, SEEK_SET) == (off_t)&word);
    printf("read %s, ", moved(read(file, &value, 8), 8));
    printf("moved %d\n", lseek(file, 0, SEEK_CUR) == (off_t)&word + 8);
    printf("to memory that is not there: %s\n", moved(pread(file, nowhere, 8, (off_t)&word), 8));
    if (write(hold[1], "e", 1) != 1)
        fail("write");
    for (int i = 0; i < 200; i++) {
        char line[100] = "";
        int command = open_of(child, "cmdline", O_RDONLY);
        ssize_t got = read(command, line, sizeof line);
        close(command);
        if (got > 15 && !strcmp(line + 14, "waits"))
            break;
        usleep(10000);
    }
    printf("of a program that is gone: %s\n", moved(pread(file, &value, 8, (off_t)&word), 8));
    close(file);
    file = open_of(child, "mem", O_RDONLY);
    printf("of the new one: %s, ", moved(pread(file, &value, 8, (off_t)&word), 8));
    printf("%ld\n", value);
    printf("write what was opened to read: %s\n", moved(pwrite(file, &value, 8, (off_t)&word), 8));
    end(child);
    printf("of a process that is gone: %s\n", moved(pread(file, &value, 8, (off_t)&word), 8));
    close(file);
    file = open("/proc/self/mem", O_RDWR);
    value = 5;
    printf("own: %s, ", moved(pwrite(file, &value, 8, (off_t)&nothing[1]), 8));
    printf("%ld\n", nothing[1]);
    close(file);
}

static void test_syscall(void) {
    int hold[2];
    char line[200] = "";
    if (pipe(hold))
        fail("pipe");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        _exit(read(hold[0], &byte, 1) == 1 ? 0 : 1);
    }
    long number = -1, fd = -1, address, length = 0;
    for (int i = 0; i < 200 && length != 1; i++) {
        int file = open_of(child, "syscall", O_RDONLY);
        ssize_t got = read(file, line, sizeof line - 1);
        line[got > 0 ? got : 0] = 0;
        close(file);
        sscanf(line, "%ld %li %li %li", &number, &fd, &address, &length);
        usleep(5000);
    }
    int fields = 0;
    for (char *at = strtok(line, " \n"); at; at = strtok(NULL, " \n"))
        fields++;
    printf("waits in call %ld of %d, length %ld, %d fields\n", number, fd == hold[0], length, fields);
    int file = open("/proc/self/syscall", O_RDONLY);
    ssize_t got = read(file, line, sizeof line - 1);
    close(file);
    line[got > 0 ? got : 0] = 0;
    printf("own: %s", atoi(line) == SYS_read || atoi(line) == SYS_open || atoi(line) == SYS_openat || !strcmp(line, "running\n") ? "as it should be\n" : line);
    if (write(hold[1], "x", 1) != 1)
        fail("write");
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv) {
    alarm(25);
    if (argc > 1) {
        if (!strcmp(argv[1], "same") || !strcmp(argv[1], "hidden"))
            if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
                return 9;
        if (!strcmp(argv[1], "same"))
            prctl(PR_SET_DUMPABLE, 1);
        if (!strcmp(argv[1], "own")) {
            test_own();
            return 0;
        }
        if (write(3, "", 1) != 1)
            return 9;
        for (;;)
            pause();
    }
    pid_t pid = fork();
    if (pid == 0) {
        char *environment[] = {"FIRST=1", "MARK=none", "LAST=9", NULL};
        execle("/proc/self/exe", "process-files", "own", NULL, environment);
        fail("exec");
    }
    waitpid(pid, NULL, 0);
    test_others();
    test_memory();
    test_syscall();
    test_rights();
    return 0;
}
