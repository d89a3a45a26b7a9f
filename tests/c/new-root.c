/* pivot_root: names of all kinds begin at the new root, the old one is seen where it was put and nowhere once that is unmounted; a root can be turned on itself. (Linux refuses it where the root is the first of all, as in the
   machine of these tests: debian/sandbox compares.) cairn-test: linux=no */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed;

static void is(int line, int result, int expected) {
    int got = result < 0 ? errno : 0;
    if (got != expected) failed = 1, printf("line %d: %s, not %s\n", line, strerror(got), strerror(expected));
}
#define IS(call, expected) is(__LINE__, (int)(call), expected)

static void put(const char *path, const char *text) {
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) failed = 1, printf("put %s: %s\n", path, strerror(errno));
    close(fd);
}

/* The file's text; NULL: it is not there. */
static void reads(int line, const char *path, const char *expected) {
    char text[64] = "";
    int fd = open(path, O_RDONLY);
    if (fd >= 0 && read(fd, text, sizeof text - 1) < 0) failed = 1;
    if (fd >= 0) close(fd);
    if ((fd < 0) != !expected || (expected && strcmp(text, expected))) failed = 1, printf("line %d: %s has `%s`\n", line, path, text);
}
#define READS(path, expected) reads(__LINE__, path, expected)

static void in(int line, const char *expected) {
    char name[256];
    if (!getcwd(name, sizeof name) || strcmp(name, expected)) failed = 1, printf("line %d: in %s\n", line, name);
}
#define IN(expected) in(__LINE__, expected)

static long pivot(const char *new, const char *old) { return syscall(SYS_pivot_root, new, old); }

int main(void) {
    char link[64];
    mkdir("/tmp/ms", 0755), mkdir("/tmp/ms/one", 0755);
    put("/tmp/ms/plain", "plain");
    IS(pivot("/tmp/ms", "/tmp/ms"), EINVAL);
    IS(unshare(CLONE_NEWNS), 0);
    IS(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    IS(mount("none", "/tmp/ms/one", "tmpfs", 0, "mode=755"), 0);
    mkdir("/tmp/ms/one/old", 0755), mkdir("/tmp/ms/one/usr", 0755), mkdir("/tmp/ms/one/usr/bin", 0755), mkdir("/tmp/ms/one/proc", 0755);
    mkdir("/tmp/ms/one/kept", 0755);
    IS(symlink("usr/bin", "/tmp/ms/one/bin"), 0), IS(symlink("/usr/bin/x", "/tmp/ms/one/abs"), 0);
    put("/tmp/ms/one/usr/bin/x", "a program");
    IS(chdir("/tmp/ms/one"), 0);
    IS(pivot("usr", "usr/bin"), EINVAL), IS(pivot("/tmp/ms/one", "/tmp"), EBUSY), IS(pivot("/", "/tmp/ms/one"), EBUSY);
    IS(pivot(".", "old"), 0);
    IN("/");
    IS(chdir("/"), 0);
    IN("/");
    READS("/bin/x", "a program"), READS("/abs", "a program"), READS("/old/tmp/ms/plain", "plain");
    READS("/tmp/ms/plain", NULL), READS("/old/tmp/ms/one/usr/bin/x", NULL), READS("/old/../bin/x", "a program");
    READS("/old/proc/self/comm", "new-root\n");
    IS(mount("/old/tmp/ms", "/kept", NULL, MS_BIND | MS_REC, NULL), 0);
    IS(mount("proc", "/proc", "proc", 0, NULL), 0);
    IS(umount2("/old", 0), EBUSY);
    int kept = open("/old/tmp", O_PATH);
    IS(umount2("/old", MNT_DETACH), 0);
    READS("/old/tmp/ms/plain", NULL), READS("/kept/plain", "plain"), READS("/../../kept/plain", "plain");
    IS(chdir("/kept"), 0);
    IN("/kept"), READS("../bin/x", "a program"), READS("../../../abs", "a program");
    IS(readlink("/proc/self/cwd", link, sizeof link) == 5 ? 0 : -1, 0);
    /* Who stands in what was unmounted stays there. */
    IS(openat(kept, "ms/plain", O_RDONLY), 0), IS(openat(kept, "../bin", O_RDONLY), 0);
    if (fork() == 0) {
        READS("/abs", "a program"), IN("/kept");
        IS(pivot(".", "."), 0), IS(umount2(".", MNT_DETACH), 0);
        IS(chdir("/"), 0);
        READS("/plain", "plain"), READS("/abs", NULL), READS("/../plain", "plain");
        _exit(failed);
    }
    int status = 0;
    if (wait4(-1, &status, 0, NULL) < 0 || status) failed = 1, printf("the child ended with %x\n", status);
    /* It was this one's root as well. */
    READS("/plain", "plain"), READS("/abs", NULL);
    return failed;
}
