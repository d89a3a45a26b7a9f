/* Every system call with wild pointers in every argument: the answer is an error, never a crash of anything but the caller.
 * Each number runs in a child, since some calls may rightly kill or change it. What is compared is only what POSIX fixes: EFAULT from the common calls. */
/* cairn-test: limit=300 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const long wild[] = {0, 1, 8, 4095, 0x1000, 0xdead0000, 0x7ffffffff000, 0x7fff80000000, 0x7fff80080000, 0x7fff8007e000, (long)0xffff800000000000,
                            (long)0xffffffff80000000, -1, -4096, 0x7fffffffffffffff, (long)0x8000000000000000};
enum { WILD = sizeof wild / sizeof *wild };

/* Calls that end, stop or block by their nature, or would act on other processes or the machine. */
static int excluded(long n) {
    switch (n) {
    case SYS_exit: case SYS_exit_group: case SYS_pause: case SYS_rt_sigsuspend: case SYS_reboot: case SYS_kill: case SYS_tkill: case SYS_tgkill:
    case SYS_rt_sigqueueinfo: case SYS_rt_tgsigqueueinfo: case SYS_vhangup: case SYS_fork: case SYS_vfork: case SYS_clone: case SYS_clone3:
    case SYS_setsid: case SYS_settimeofday: case SYS_clock_settime: case SYS_sethostname: case SYS_swapoff: case SYS_umount2: case SYS_chroot: case SYS_pivot_root:
    case SYS_init_module: case SYS_delete_module: case SYS_kexec_load: case SYS_pidfd_send_signal: case SYS_acct: case SYS_bpf: case SYS_ptrace:
        return 1;
    }
    return 0;
}

static void expect_fault(const char *name, long result) {
    printf("%s: %s\n", name, result == -1 && errno == EFAULT ? "EFAULT" : result == -1 ? "other error" : "success");
}

int main(void) {
    setbuf(stdout, NULL);
    void *bad = (void *)8, *high = (void *)0xffff800000000000;
    int p[2], zero = open("/dev/zero", O_RDONLY), null = open("/tmp/wild-file", O_RDWR | O_CREAT, 0600);
    if (pipe(p) < 0 || zero < 0 || null < 0 || write(p[1], "x", 1) != 1) {
        puts("set-up failed");
        return 1;
    }
    expect_fault("read", syscall(SYS_read, zero, bad, 10));
    expect_fault("read high", syscall(SYS_read, zero, high, 10));
    expect_fault("read pipe", syscall(SYS_read, p[0], bad, 1));
    expect_fault("write file", syscall(SYS_write, null, bad, 10));
    expect_fault("write pipe", syscall(SYS_write, p[1], high, 10));
    expect_fault("open", syscall(SYS_open, bad, 0));
    expect_fault("open high", syscall(SYS_open, high, 0));
    expect_fault("stat path", syscall(SYS_stat, bad, bad));
    expect_fault("stat buffer", syscall(SYS_stat, "/", bad));
    expect_fault("getcwd", syscall(SYS_getcwd, bad, 100));
    expect_fault("pipe", syscall(SYS_pipe, bad));
    expect_fault("execve", syscall(SYS_execve, bad, NULL, NULL));
    expect_fault("execve argv", syscall(SYS_execve, "/bin/true", bad, NULL));
    expect_fault("nanosleep", syscall(SYS_nanosleep, bad, NULL));
    expect_fault("sigaction", syscall(SYS_rt_sigaction, SIGUSR1, bad, NULL, 8));
    expect_fault("uname", syscall(SYS_uname, bad));
    expect_fault("wait4", (fork() == 0 ? (_exit(0), 0) : 0, syscall(SYS_wait4, -1, bad, 0, NULL)));
    expect_fault("mkdir", syscall(SYS_mkdir, bad, 0700));
    expect_fault("clock_gettime", syscall(SYS_clock_gettime, 0, bad));
    expect_fault("readv", syscall(SYS_readv, zero, bad, 2));
    expect_fault("poll", syscall(SYS_poll, bad, 1, 0));

    int survived = 0;
    for (long n = 0; n < 462; n++) {
        if (excluded(n)) {
            continue;
        }
        pid_t pid = fork();
        if (pid == 0) {
            alarm(1);
            for (int i = 0; i < 4 * WILD; i++) {
                long w = wild[i % WILD], v = wild[(i * 7 + 3) % WILD];
                switch (i / WILD) {
                case 0: syscall(n, w, w, w, w, w, w); break;
                case 1: syscall(n, w, v, 1L, v, w, 0L); break;
                case 2: syscall(n, (long)(i % 8), w, v, w, v, w); break;
                case 3: syscall(n, "/tmp/wild-file", w, v, w, v, w); break;
                }
            }
            _exit(0);
        }
        int status;
        survived += pid > 0 && waitpid(pid, &status, 0) == pid;
    }
    unlink("/tmp/wild-file");
    printf("parent waited for %s\n", survived > 400 ? "all" : "some");
    return 0;
}
