/* What a filter lets through in no case is not to be had below the system-call library either: files, sockets, processes, signals to others. With strict mode as well.
 * cairn-test: linux=no */
#define _GNU_SOURCE
#include "gate.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Operations of `proc` (idl/proc.idl), and OPEN of file servers. */
enum { FORK = 1, EXEC = 5, KILL = 7, TGKILL = 8, IDS = 12, SETSID = 14, SETCREDS = 16, SETPRIORITY = 21, MOUNT_PORTAL = 24, SET_ROOT = 36, UNSHARE = 37, ROOT_HANDLE = 42, OPEN = 1 };
#define INLINE (1ULL << 33)

struct instruction {
    uint16_t code;
    uint8_t jump_true, jump_false;
    uint32_t k;
};

static traverse *go;
static int wrong;

static int64_t ask(uint64_t slot, struct gate *g) {
    g->rax = slot;
    go(g);
    return (g->rax & 255) == 0 ? (int64_t)g->words[0] : -1000;
}

static int64_t process(uint64_t operation, uint64_t a, uint64_t b) {
    struct gate g;
    memset(&g, 0, sizeof g);
    g.words[0] = operation, g.words[1] = a, g.words[2] = b;
    return ask(SLOT_PROC, &g);
}

static void must_be(const char *what, int64_t result, int64_t expected) {
    if (result != expected) {
        printf("%s: %ld instead of %ld\n", what, (long)result, (long)expected);
        wrong++;
    }
}

/* Through how many entries of the table can /etc/passwd or a socket's server be reached? */
static int reach(const char *path) {
    int found = 0;
    for (uint64_t slot = SLOT_MOUNTS; slot < SLOT_FIRST + 64; slot++) {
        struct gate g;
        memset(&g, 0, sizeof g);
        g.words[0] = OPEN, g.words[2] = INLINE | (uint64_t)strlen(path) << 40;
        memcpy(&g.words[3], path, strlen(path));
        found += ask(slot, &g) == 0 && (g.rax >> 16 & 15) == 1;
    }
    return found;
}

static int portals(void) {
    int found = 0;
    for (uint64_t index = 0; index < MOUNTS; index++) {
        struct gate g;
        memset(&g, 0, sizeof g);
        g.words[0] = MOUNT_PORTAL, g.words[1] = index;
        found += ask(SLOT_PROC, &g) == 0;
    }
    return found;
}

static void attack(pid_t victim) {
    must_be("fork", process(FORK, 0, 0), -EPERM);
    must_be("exec", process(EXEC, 0, 0), -EPERM);
    must_be("kill", process(KILL, victim, 9), -EPERM);
    must_be("kill of all", process(KILL, -1, 9), -EPERM);
    must_be("tgkill", process(TGKILL, victim, victim), -EPERM);
    must_be("setsid", process(SETSID, 0, 0), -EPERM);
    must_be("setcreds", process(SETCREDS, 0, 0), -EPERM);
    must_be("setpriority", process(SETPRIORITY, 0, 0), -EPERM);
    must_be("set_root", process(SET_ROOT, 0, 0), -EPERM);
    must_be("unshare", process(UNSHARE, 0x20000, 0), -EPERM);
    must_be("the root's handle", process(ROOT_HANDLE, 0, 0), -EPERM);
    must_be("files", reach("etc/passwd"), 0);
    must_be("files", reach("passwd"), 0);
    /* What remains are pipes and the event server. */
    must_be("mounts", portals() <= 2, 1);
}

int main(void) {
    int told[2], status;
    go = find_gate();
    if (go == NULL) {
        puts("no gate");
        return 1;
    }
    pid_t victim = fork();
    if (victim == 0) {
        setuid(1000);
        pause();
        _exit(0);
    }
    pipe(told);
    for (int strict = 0; strict < 2; strict++) {
        pid_t pid = fork();
        if (pid == 0) {
            socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){0});
            setuid(1000);
            if (reach("etc/passwd") == 0 || portals() <= 2) {
                puts("nothing to take away");
                _exit(1);
            }
            if (strict) {
                prctl(PR_SET_SECCOMP, 1);
            } else {
                /* read, write and the ways to end, and nothing else. */
                struct instruction filter[] = {{0x20, 0, 0, 0}, {0x15, 4, 0, 0}, {0x15, 3, 0, 1}, {0x15, 2, 0, 60}, {0x15, 1, 0, 231}, {6, 0, 0, 0x50000 | EACCES}, {6, 0, 0, 0x7fff0000}};
                struct {
                    unsigned short length;
                    struct instruction *filter;
                } program = {sizeof filter / sizeof *filter, filter};
                prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                if (prctl(PR_SET_SECCOMP, 2, &program) != 0) {
                    puts("not installed");
                    _exit(1);
                }
            }
            attack(victim);
            write(told[1], wrong == 0 ? "held\n" : "open\n", 5);
            syscall(SYS_exit, 0);
        }
        waitpid(pid, &status, 0);
        char line[6] = {0};
        read(told[0], line, 5);
        printf("%s: %s", strict ? "strict" : "filter", line);
        fflush(stdout);
        if (strcmp(line, "held\n") != 0 || status != 0)
            wrong++;
    }
    if (kill(victim, 0) != 0 || waitpid(victim, &status, WNOHANG) != 0)
        wrong++, puts("the victim died");
    kill(victim, SIGKILL);
    return wrong;
}
