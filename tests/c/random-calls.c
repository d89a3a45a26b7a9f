/* Half a million random system calls with hostile arguments (or as many as the first argument says), in children of an unprivileged user: the system and this process survive.
 * Each C library's build makes other calls. Usage: random-calls [COUNT [SEED]]. */
/* cairn-test: linux=no */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PER_CHILD = 5000 };
#ifdef __GLIBC__
static const uint64_t first_seed = 20261120;
#else
static const uint64_t first_seed = 20261121;
#endif
static uint64_t state;
static char buffer[65536];
static volatile long *done;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static long argument(void) {
    static const long edges[] = {0, 1, 2, 3, -1, -100, 7, 4096, 0x1000, 0x7fff80000000, 0x7fff80080000, 0x7ffffffff000, (long)0xffff800000000000, 0x7fffffff, 0x80000000, (long)1 << 62};
    switch (next() % 7) {
    case 0: return (long)next();
    case 1: return edges[next() % (sizeof edges / sizeof *edges)];
    case 2: return (long)(buffer + next() % sizeof buffer);
    case 3: return (long)(next() % 16);
    case 4: return (long)(next() % 65536);
    case 5: return (long)"/tmp/random-file";
    default: return (long)(next() & 0x7ffffffff000);
    }
}

/* Never: what ends or copies the caller, waits for ever (as who is traced does at each signal), or signals the whole user. */
static int excluded(long n) {
    switch (n) {
    case SYS_exit: case SYS_exit_group: case SYS_fork: case SYS_vfork: case SYS_clone: case SYS_clone3: case SYS_kill: case SYS_tkill: case SYS_tgkill:
    case SYS_pause: case SYS_rt_sigsuspend: case SYS_reboot: case SYS_rt_sigqueueinfo: case SYS_rt_tgsigqueueinfo: case SYS_pidfd_send_signal: case SYS_execve: case SYS_execveat:
    case SYS_ptrace:
        return 1;
    }
    return 0;
}

static void child(uint64_t seed) {
    struct rlimit memory = {.rlim_cur = 256 << 20, .rlim_max = 256 << 20};
    state = seed | 1;
    setrlimit(RLIMIT_AS, &memory);
    if (setgid(65534) < 0 || setuid(65534) < 0) {
        _exit(3);
    }
    for (int fd = 0; fd < 3; fd++) {
        close(fd);
    }
    open("/dev/null", O_RDWR);
    open("/dev/zero", O_RDWR);
    open("/tmp/random-file", O_RDWR | O_CREAT, 0666);
    for (int i = 0; i < PER_CHILD; i++) {
        long n = next() % 8 == 0 ? (long)next() : (long)(next() % 462);
        long a = argument(), b = argument(), c = argument(), d = argument(), e = argument(), f = argument();
        ++*done;
        if (!excluded(n & 0xffff) && !excluded(n)) {
            syscall(n, a, b, c, d, e, f);
        }
    }
    _exit(0);
}

int main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 500000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : first_seed;
    done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (done == MAP_FAILED) {
        return 1;
    }
    while (*done < count) {
        long before = *done;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        pid_t pid = fork();
        if (pid == 0) {
            child(seed);
        }
        if (pid < 0) {
            puts("fork failed");
            return 1;
        }
        /* A call that waits for ever ends the child, whatever its state: when no call has been made for a tenth of a second (but at least one). */
        int status;
        long seen = before;
        for (int still = 0; waitpid(pid, &status, WNOHANG) == 0; still++) {
            usleep(1000);
            if (*done != seen) {
                seen = *done;
                still = 0;
            } else if (still > 100 && seen != before) {
                kill(pid, SIGKILL);
            }
        }
        if (*done == before) {
            puts("a child did nothing");
            return 1;
        }
    }
    unlink("/tmp/random-file");
    puts("still here");
    return 0;
}
