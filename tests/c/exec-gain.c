/* PR_SET_MDWE: who gave up writable code does not get it back, nor do children and the programs that it becomes, unless only this program was meant. (Debian 12's kernel does
   not know it.) cairn-test: linux=no */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SET = 65, GET = 66, REFUSED = 1, NOT_INHERITED = 2 };
enum { PAGE = 4096, R = PROT_READ, RW = PROT_READ | PROT_WRITE, RX = PROT_READ | PROT_EXEC, RWX = RW | PROT_EXEC };
static int failed;

static void expect(const char *what, long got, int errno_wanted, long wanted) {
    int error = got == -1 ? errno : 0;
    if (got != wanted || error != errno_wanted) {
        printf("%s: %ld (%s), not %ld (%s)\n", what, got, strerror(error), wanted, strerror(errno_wanted));
        failed = 1;
    }
}
static void expect_map(const char *what, int prot, int flags, int fd, int errno_wanted) {
    void *p = mmap(NULL, PAGE, prot, flags, fd, 0);
    expect(what, p == MAP_FAILED ? -1 : 0, errno_wanted, errno_wanted ? -1 : 0);
}

/* What holds: 0, REFUSED or REFUSED | NOT_INHERITED. */
static void holds(int bits) {
    char *w = mmap(NULL, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *x = mmap(NULL, PAGE, RX, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int file = memfd_create("code", 0), error = bits ? EACCES : 0, result = bits ? -1 : 0;
    ftruncate(file, PAGE);
    expect("get", prctl(GET, 0, 0, 0, 0), 0, bits);
    expect_map("map both", RWX, MAP_PRIVATE | MAP_ANONYMOUS, -1, error);
    expect_map("map both of a file", RWX, MAP_SHARED, file, error);
    expect_map("map code of a file", RX, MAP_SHARED, file, 0);
    expect("data to code", mprotect(w, PAGE, RX), error, result);
    expect("code to both", mprotect(x, PAGE, RWX), error, result);
    expect("code to code", mprotect(x, PAGE, RX), 0, 0);
    expect("code to data", mprotect(x, PAGE, RW), 0, 0);
    expect("and back", mprotect(x, PAGE, RX), error, result);
    close(file);
}
static void joined(const char *what, pid_t pid) {
    int status = 1;
    waitpid(pid, &status, 0);
    expect(what, status, 0, 0);
}

int main(int count, char **arguments) {
    if (count > 1) {
        holds(atoi(arguments[1]));
        return failed;
    }
    static const char *const wanted[] = {"0", "1", "0"};
    int self = open("/proc/self/exe", O_RDONLY), raised = open("raised", O_WRONLY | O_CREAT, 0700);
    while (sendfile(raised, self, NULL, 1 << 20) > 0)
        ;
    fchmod(raised, 04755);
    close(raised);
    for (int bits = 0; bits <= 3; bits += bits == 1 ? 2 : 1) {
        pid_t pid = fork();
        if (pid == 0) {
            const char *next = wanted[bits / 2 + bits % 2];
            expect("arguments", prctl(SET, bits, 1, 0, 0), EINVAL, -1);
            expect("bits", prctl(SET, 4 | bits, 0, 0, 0), EINVAL, -1);
            expect("the second alone", prctl(SET, NOT_INHERITED, 0, 0, 0), EINVAL, -1);
            expect("get with arguments", prctl(GET, 1, 0, 0, 0), EINVAL, -1);
            expect("set", prctl(SET, bits, 0, 0, 0), 0, 0);
            expect("set again", prctl(SET, bits, 0, 0, 0), 0, 0);
            if (bits) {
                expect("take back", prctl(SET, 0, 0, 0, 0), EPERM, -1);
                expect("change", prctl(SET, bits ^ NOT_INHERITED, 0, 0, 0), EPERM, -1);
            }
            holds(bits);
            pid_t child = fork();
            if (child == 0) {
                holds(atoi(next));
                exit(failed);
            }
            joined("fork", child);
            child = vfork();
            if (child == 0) {
                execl("/proc/self/exe", "exec-gain", next, (char *)0);
                _exit(99);
            }
            joined("vfork and exec", child);
            child = fork();
            if (child == 0) {
                setresuid(1000, 1000, 1000);
                execl("./raised", "exec-gain", next, (char *)0);
                _exit(98);
            }
            joined("exec of a set-user-id program", child);
            if (!failed) {
                execl("/proc/self/exe", "exec-gain", next, (char *)0);
            }
            exit(1);
        }
        joined("all", pid);
    }
    unlink("raised");
    puts(failed ? "wrong" : "right");
    return failed;
}
