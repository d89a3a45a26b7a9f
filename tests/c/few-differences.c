/* What programs see of rarer calls and flags: memory policies of one node, prctl's switches, calls about what is not there, O_TMPFILE with O_EXCL, hints,
   pipes that are not waited for (splice, tee, vmsplice), mremap of several mappings and without unmapping, msync of locked memory, clone3's checks. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *what, long result) {
    if (result == -1) {
        printf("%s: %s\n", what, strerror(errno));
    } else {
        printf("%s: %ld\n", what, result);
    }
}

#define SAY(call) say(#call, (long)(call))

static void policies(void) {
    enum { DEFAULT, PREFERRED, BIND, INTERLEAVE, LOCAL };
    unsigned long mask[16] = {1}, other[16] = {2}, found[16];
    int mode = -1, nodes[2] = {0, 1}, status[2] = {7, 7};
    char *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *pages[2] = {p, p + 4096};
    p[0] = 1;
    SAY(syscall(SYS_set_mempolicy, BIND, mask, 64));
    SAY(syscall(SYS_get_mempolicy, &mode, found, 1024, NULL, 0));
    printf("%d %lx\n", mode, found[0]);
    SAY(syscall(SYS_set_mempolicy, BIND, other, 64));
    SAY(syscall(SYS_set_mempolicy, BIND, NULL, 0));
    SAY(syscall(SYS_set_mempolicy, 99, mask, 64));
    SAY(syscall(SYS_set_mempolicy, BIND, (void *)8, 64));
    SAY(syscall(SYS_set_mempolicy, DEFAULT, mask, 64));
    SAY(syscall(SYS_set_mempolicy, PREFERRED, NULL, 0));
    SAY(syscall(SYS_get_mempolicy, &mode, found, 1024, NULL, 0));
    printf("%d %lx\n", mode, found[0]);
    SAY(syscall(SYS_set_mempolicy, DEFAULT, NULL, 0));
    SAY(syscall(SYS_mbind, p, 32768, INTERLEAVE, mask, 64, 0));
    SAY(syscall(SYS_mbind, p + 8192, 4096, BIND, mask, 64, 0));
    for (int at = 0; at < 65536; at += 8192) {
        SAY(syscall(SYS_get_mempolicy, &mode, found, 1024, p + at, 2));
        printf("%d %lx\n", mode, found[0]);
    }
    SAY(syscall(SYS_get_mempolicy, &mode, NULL, 0, 8, 2));
    SAY(syscall(SYS_get_mempolicy, &mode, NULL, 0, p, 0));
    SAY(syscall(SYS_get_mempolicy, &mode, found, 1024, NULL, 4));
    printf("%lx\n", found[0]);
    SAY(syscall(SYS_mbind, p + 1, 4096, BIND, mask, 64, 0));
    SAY(syscall(SYS_mbind, 1L << 40, 4096, BIND, mask, 64, 0));
    SAY(syscall(SYS_mbind, p, 4096, BIND, mask, 64, 99));
    SAY(syscall(SYS_migrate_pages, 0, 64, mask, mask));
    SAY(syscall(SYS_migrate_pages, 999999, 64, mask, mask));
    SAY(syscall(SYS_move_pages, 0, 1, pages, NULL, status, 0));
    printf("%d\n", status[0]);
    SAY(syscall(SYS_move_pages, 0, 2, pages, nodes, status, 2));
    SAY(syscall(SYS_move_pages, 0, 1, pages, nodes, status, 99));
    SAY(syscall(SYS_move_pages, 999999, 1, pages, nodes, status, 2));
}

static void switches(void) {
    SAY(prctl(PR_MCE_KILL_GET, 0, 0, 0, 0));
    SAY(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0));
    SAY(prctl(PR_MCE_KILL_GET, 0, 0, 0, 0));
    SAY(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, 5, 0, 0));
    SAY(prctl(PR_MCE_KILL, PR_MCE_KILL_CLEAR, 0, 0, 0));
    SAY(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
    SAY(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
    SAY(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
    SAY(prctl(PR_GET_THP_DISABLE, 1, 0, 0, 0));
    SAY(prctl(57, 1, 0, 0, 0));
    SAY(prctl(58, 0, 0, 0, 0));
    SAY(prctl(57, 2, 0, 0, 0));
}

/* For user 0 and for another one. */
static void absent(void) {
    SAY(syscall(SYS_acct, NULL));
    SAY(syscall(SYS_acct, "/none"));
    SAY(syscall(SYS_acct, "/"));
    SAY(syscall(SYS_swapon, "/none", 0));
    SAY(syscall(SYS_swapon, "/none", 1 << 30));
    SAY(syscall(SYS_swapoff, "/none"));
    SAY(syscall(SYS_quotactl, 0x80000700, "/dev/none", 0, 0));
    SAY(syscall(SYS_quotactl, 0, 0, 0, 0));
    SAY(syscall(SYS_init_module, 8, 8, 8));
    SAY(syscall(SYS_finit_module, -1, "", 0));
    SAY(syscall(SYS_delete_module, "none", 0));
    SAY(syscall(SYS_kexec_load, 0, 17, 0, 0));
    SAY(syscall(SYS_iopl, 0));
    SAY(syscall(SYS_iopl, 4));
    SAY(syscall(SYS_ioperm, 70000, 1, 1));
    SAY(syscall(SYS_ioperm, 100, 1, 0));
}

static void files(void) {
    char folder[] = "/tmp/differences-XXXXXX", path[64];
    unsigned ids[2] = {9, 9};
    unsigned long hint = 9;
    struct stat st;
    if (mkdtemp(folder) == NULL || chdir(folder) < 0) {
        return;
    }
    int fd = open(".", O_TMPFILE | O_RDWR | O_EXCL, 0600);
    sprintf(path, "/proc/self/fd/%d", fd);
    SAY(linkat(AT_FDCWD, path, AT_FDCWD, "name", AT_SYMLINK_FOLLOW));
    SAY(linkat(fd, "", AT_FDCWD, "name", AT_EMPTY_PATH));
    fd = open(".", O_TMPFILE | O_RDWR, 0600);
    SAY(linkat(fd, "", AT_FDCWD, "name", AT_EMPTY_PATH));
    SAY(open(".", O_TMPFILE | O_RDWR | O_CREAT, 0600));
    SAY(symlink(".", "here"));
    SAY(symlink("name", "there"));
    SAY(open("here", O_RDONLY | O_NOFOLLOW | O_DIRECTORY));
    SAY(open("there", O_RDONLY | O_NOFOLLOW | O_DIRECTORY));
    SAY(open("there", O_RDONLY | O_NOFOLLOW));
    SAY(fcntl(fd, 1035, &hint));
    hint = 3;
    SAY(fcntl(fd, 1036, &hint));
    hint = 0;
    SAY(fcntl(fd, 1035, &hint));
    printf("%lu\n", hint);
    hint = 6;
    SAY(fcntl(fd, 1036, &hint));
    SAY(fcntl(fd, 1036, NULL));
    int p[2];
    SAY(pipe(p));
    SAY(fcntl(p[0], 17, ids));
    printf("%u %u\n", ids[0], ids[1]);
    SAY(fcntl(p[0], F_SETOWN, getpid()));
    SAY(fcntl(p[0], 17, ids));
    printf("%u %u\n", ids[0], ids[1]);
    struct {
        unsigned mask, rest[63];
    } statx = {0};
    SAY(syscall(SYS_statx, AT_FDCWD, "name", 0, 0xfff, &statx));
    printf("birth %d %d\n", (statx.mask & 0x800) != 0, statx.rest[19] != 0);
    SAY(unlink("name"));
    SAY(unlink("here"));
    SAY(unlink("there"));
    SAY(lstat("name", &st));
    SAY(chdir("/"));
    SAY(rmdir(folder));
}

static void pipes(void) {
    enum { NONBLOCK = 2 };
    int empty[2], full[2], zero = open("/dev/zero", O_RDWR), null = open("/dev/null", O_WRONLY);
    static char bytes[4096];
    struct iovec piece = {bytes, 10};
    if (pipe(empty) < 0 || pipe2(full, O_NONBLOCK) < 0) {
        return;
    }
    while (write(full[1], bytes, sizeof bytes) > 0) {
    }
    fcntl(full[1], F_SETFL, 0);
    SAY(tee(empty[0], full[1], 5, NONBLOCK));
    SAY(splice(empty[0], NULL, null, NULL, 5, NONBLOCK));
    SAY(tee(full[0], full[1], 5, NONBLOCK));
    SAY(vmsplice(full[1], &piece, 1, NONBLOCK));
    SAY(vmsplice(empty[0], &piece, 1, NONBLOCK));
    SAY(write(empty[1], "hello", 5));
    SAY(tee(empty[0], full[1], 5, NONBLOCK));
    SAY(splice(empty[0], NULL, full[1], NULL, 5, NONBLOCK));
    SAY(splice(empty[0], NULL, null, NULL, 5, NONBLOCK));
    SAY(splice(zero, NULL, empty[1], NULL, 5, 0));
    close(empty[1]);
    SAY(splice(empty[0], NULL, null, NULL, 5, NONBLOCK));
}

static char *map(size_t length) { return mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

/* The C library passes an address with MREMAP_FIXED only. */
static char *remap(char *old, size_t length, size_t wanted, int flags, char *to) {
    return (char *)syscall(SYS_mremap, old, length, wanted, flags, to);
}

/* What ioctl, syslog, fstatfs and copy_file_range say. */
static void rest(void) {
    char name[] = "/tmp/differences-XXXXXX", bytes[16];
    int fd = mkstemp(name), p[2], count = 9;
    loff_t from = 0, to = 2;
    struct statfs kind;
    if (pipe(p) < 0) {
        return;
    }
    unlink(name);
    SAY(write(fd, "0123456789", 10));
    SAY(ioctl(fd, FIONREAD, &count));
    printf("%d\n", count);
    SAY(lseek(fd, 3, SEEK_SET));
    SAY(ioctl(fd, FIONREAD, &count));
    printf("%d\n", count);
    SAY(copy_file_range(fd, &from, fd, &to, 5, 0));
    from = 0, to = 5;
    SAY(copy_file_range(fd, &from, fd, &to, 5, 0));
    printf("%d %d\n", (int)from, (int)to);
    SAY(pread(fd, bytes, 16, 0));
    printf("%.10s\n", bytes);
    from = 8, to = 10;
    SAY(copy_file_range(fd, &from, fd, &to, 5, 0));
    SAY(fstatfs(p[0], &kind));
    printf("%lx\n", (unsigned long)kind.f_type);
    SAY(syscall(SYS_syslog, 3, NULL, 5));
    SAY(syscall(SYS_syslog, 3, bytes, -1));
    SAY(syscall(SYS_syslog, 8, NULL, 9));
    SAY(syscall(SYS_syslog, 8, NULL, 0));
    SAY(syscall(SYS_syslog, -1, NULL, 0));
}

static void memory(void) {
    char *p = map(65536), *q;
    unsigned char there;
    mprotect(p + 8192, 4096, PROT_READ);
    p[0] = 'a';
    SAY(mremap(p, 65536, 4096, 0) == p);
    SAY(mincore(p + 8192, 4096, &there));
    SAY(p[0]);
    p = map(65536);
    mprotect(p + 8192, 4096, PROT_READ);
    SAY(mremap(p, 16384, 20480, MREMAP_MAYMOVE) == MAP_FAILED);
    p = map(16384);
    p[0] = 'x';
    p[4096] = 'y';
    q = remap(p, 8192, 8192, MREMAP_MAYMOVE | 4, 0);
    if (q != MAP_FAILED) {
        printf("moved %d: %d %d, left %d %d\n", q != p, q[0], q[4096], p[0], p[4096]);
        p[0] = 'z';
        printf("%d %d\n", p[0], q[0]);
    }
    SAY(remap(p, 8192, 4096, MREMAP_MAYMOVE | 4, NULL) == MAP_FAILED);
    SAY(remap(p, 8192, 8192, 4, NULL) == MAP_FAILED);
    SAY(remap(p, 8192, 8192, MREMAP_MAYMOVE | 4, p + 1) == MAP_FAILED);
    char *to = map(8192);
    SAY(remap(q, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED | 4, to) == to);
    printf("%d %d\n", to[0], q[0]);
    SAY(munmap(p, 16384));
    SAY(munmap(to, 8192));
    p = map(8192);
    SAY(mlock(p, 4096));
    SAY(msync(p, 8192, MS_INVALIDATE));
    SAY(msync(p, 8192, MS_SYNC | MS_INVALIDATE));
    SAY(msync(p + 4096, 4096, MS_INVALIDATE));
    SAY(munlock(p, 4096));
    SAY(msync(p, 8192, MS_INVALIDATE));
    SAY(madvise(p, 0, 99));
    SAY(madvise(p, 0, MADV_NORMAL));
}

static void handler(int signal) { (void)signal; }

static void children(void) {
    unsigned long a[11] = {0};
    int status = 0;
    a[4] = 65;
    SAY(syscall(SYS_clone3, a, 64));
    a[4] = SIGCHLD, a[5] = 4096;
    SAY(syscall(SYS_clone3, a, 64));
    a[5] = 0, a[6] = 4096;
    SAY(syscall(SYS_clone3, a, 64));
    a[6] = 0, a[0] = 0x11;
    SAY(syscall(SYS_clone3, a, 64));
    a[0] = 1UL << 40;
    SAY(syscall(SYS_clone3, a, 64));
    a[0] = 0x100000000UL | 0x900;
    SAY(syscall(SYS_clone3, a, 64));
    a[0] = 0, a[9] = 1;
    SAY(syscall(SYS_clone3, a, 80));
    a[8] = 8;
    SAY(syscall(SYS_clone3, a, 80));
    a[8] = a[9] = 0;
    struct sigaction action = {.sa_handler = handler}, found;
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGUSR2, SIG_IGN);
    a[0] = 0x100000000UL;
    long child = syscall(SYS_clone3, a, 64);
    if (child == 0) {
        sigaction(SIGUSR1, NULL, &found);
        int caught = found.sa_handler != SIG_DFL;
        sigaction(SIGUSR2, NULL, &found);
        _exit(2 * caught + (found.sa_handler == SIG_IGN));
    }
    wait(&status);
    printf("handlers of the child: %d\n", WEXITSTATUS(status));
    siginfo_t info = {.si_code = SI_TKILL};
    SAY(syscall(SYS_rt_sigqueueinfo, getppid(), 0, &info));
}

int main(void) {
    setbuf(stdout, NULL);
    policies();
    switches();
    files();
    pipes();
    memory();
    rest();
    children();
    absent();
    if (fork() == 0) {
        if (setgid(1000) < 0 || setuid(1000) < 0) {
            _exit(1);
        }
        absent();
        SAY(syscall(SYS_acct, 8));
        SAY(syscall(SYS_iopl, 3));
        SAY(syscall(SYS_ioperm, 100, 1, 1));
        SAY(syscall(SYS_bpf, 0, 0, 0));
        _exit(0);
    }
    wait(NULL);
    return 0;
}
