/* Mount name spaces: what is mounted in one is seen there by names of all kinds and nowhere else, flags hold there, the root can be another folder, and who has no privilege changes nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *what, int result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "done");
    fflush(stdout);
}

static void put(const char *path, const char *text) {
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) printf("put %s: %s\n", path, strerror(errno));
    close(fd);
}

static void show(const char *path) {
    char text[64] = "";
    int fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0) return (void)printf("%s: %s\n", path, strerror(errno));
    printf("%s: %s\n", path, text);
    close(fd);
}

static void where(void) {
    char name[256];
    printf("in %s\n", getcwd(name, sizeof name) ? name : strerror(errno));
}

/* Lines of this process's mountinfo whose place begins so: place, type, whether it is read only. */
static void mounts(const char *begins) {
    char line[512], place[256], options[256], kind[64];
    FILE *file = fopen("/proc/self/mountinfo", "r");
    if (!file) return (void)printf("mountinfo: %s\n", strerror(errno));
    while (fgets(line, sizeof line, file)) {
        char *dash = strstr(line, " - ");
        if (!dash || sscanf(line, "%*d %*d %*s %*s %255s %255s", place, options) != 2) continue;
        sscanf(dash, " - %63s", kind);
        if (!strcmp(kind, "rootfs")) strcpy(kind, "tmpfs");
        if (!strncmp(place, begins, strlen(begins))) printf("%s %s %.2s\n", place, kind, options);
    }
    fclose(file);
}

static int wait_for(pid_t pid) {
    int status = 0;
    fflush(stdout);
    waitpid(pid, &status, 0);
    return status;
}

static void inside(void) {
    static const char *options[] = {NULL, "", "hidepid=0", "gid=5,hidepid=off", "hidepid=9", "subset=all", "nonsense", "gid=", "gid=x"};
    for (int i = 0; i < 9; i++) {
        printf("proc with %s, ", options[i] ? options[i] : "none");
        int result = mount("proc", "/tmp/ms/one", "proc", 0, options[i]);
        tell("mounted", result);
        if (!result) tell("unmount", umount2("/tmp/ms/one", MNT_DETACH));
    }
    tell("mount a tmpfs", mount("none", "/tmp/ms/one", "tmpfs", 0, "mode=755"));
    put("/tmp/ms/one/file", "in the tmpfs");
    chdir("/tmp/ms");
    show("one/file"), show("link/file"), show("one/../one/./file"), show("/tmp/ms/one/../plain");
    chdir("one"), where(), show("../plain");
    chdir(".."), where();
    tell("bind", mount("/tmp/ms/one", "/tmp/ms/two", NULL, MS_BIND, NULL));
    put("/tmp/ms/two/file", "through the bind");
    show("one/file");
    chdir("two"), where();
    tell("bind a file", mount("/tmp/ms/plain", "/tmp/ms/other", NULL, MS_BIND, NULL));
    show("/tmp/ms/other"), show("../other");
    tell("unlink a mount point", unlink("/tmp/ms/other"));
    tell("rmdir a mount point", rmdir("/tmp/ms/two"));
    tell("a folder on a file", mount("/tmp/ms/one", "/tmp/ms/other", NULL, MS_BIND, NULL));
    tell("read only", mount("none", "/tmp/ms/two", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID, NULL));
    tell("write there", open("/tmp/ms/two/file", O_WRONLY)), tell("make there", open("/tmp/ms/two/new", O_CREAT | O_WRONLY, 0600));
    tell("remove there", unlink("/tmp/ms/two/file")), tell("mkdir there", mkdir("/tmp/ms/two/d", 0700));
    tell("chmod there", chmod("/tmp/ms/two/file", 0600)), tell("rename out", rename("/tmp/ms/two/file", "/tmp/ms/two/f"));
    tell("write the other way", open("/tmp/ms/one/file", O_WRONLY));
    tell("link across", link("/tmp/ms/one/file", "/tmp/ms/two/l"));
    mounts("/tmp/ms");
    if (fork() == 0) {
        show("/tmp/ms/one/file"), fflush(stdout);
        execl("/bin/sh", "sh", "-c", "cd /tmp/ms/one/.. && pwd && cat two/file && echo", NULL);
        _exit(1);
    }
    wait(NULL);
    chdir("/");
    tell("umount above", umount2("/tmp/ms/nothing", 0));
    tell("umount", umount2("/tmp/ms/two", MNT_DETACH)), tell("umount a file", umount2("/tmp/ms/other", MNT_DETACH));
    show("/tmp/ms/two/file"), show("/tmp/ms/other");
}

static int child(void *names) {
    struct utsname name;
    tell("a host name", sethostname(names, strlen(names)));
    uname(&name);
    printf("host %s\n", name.nodename);
    tell("a mount", mount("none", "/tmp/ms/one", "tmpfs", 0, NULL));
    put("/tmp/ms/one/deep", "cloned");
    show("/tmp/ms/one/deep");
    fflush(stdout);
    return 7;
}

int main(void) {
    static char stack[65536];
    struct utsname before, after;
    setvbuf(stdout, NULL, _IOLBF, 0);
    umask(022);
    mkdir("/tmp/ms", 0755), mkdir("/tmp/ms/one", 0755), mkdir("/tmp/ms/two", 0755);
    put("/tmp/ms/plain", "plain"), put("/tmp/ms/other", "other"), put("/tmp/ms/two/file", "below");
    if (symlink("one", "/tmp/ms/link")) perror("symlink");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        tell("unshare", unshare(CLONE_NEWNS));
        tell("private", mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
        inside();
        fflush(stdout);
        _exit(0);
    }
    printf("ended with %d\n", wait_for(pid));
    show("/tmp/ms/one/file"), show("/tmp/ms/two/file"), show("/tmp/ms/plain"), show("/tmp/ms/other");
    mounts("/tmp/ms");
    uname(&before);
    fflush(stdout);
    pid = clone(child, stack + sizeof stack, CLONE_NEWNS | CLONE_NEWUTS | SIGCHLD, "inside");
    printf("ended with %d\n", wait_for(pid));
    uname(&after);
    printf("%s host name outside\n", strcmp(before.nodename, after.nodename) ? "another" : "the same");
    show("/tmp/ms/one/deep");
    fflush(stdout);
    if ((pid = fork()) == 0) {
        if (setgid(1000) || setuid(1000)) perror("setuid");
        tell("unshare by a user", unshare(CLONE_NEWNS));
        tell("clone by a user", clone(child, stack + sizeof stack, CLONE_NEWNS | SIGCHLD, "user"));
        tell("pivot by a user", syscall(SYS_pivot_root, "/", "/"));
        _exit(0);
    }
    wait_for(pid);
    tell("unknown bits", unshare(1));
    return 0;
}
