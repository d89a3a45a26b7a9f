/* F_NOTIFY: signals of what changes in a directory: which changes, once or again and again, with which signal, until when; also of an ordinary user.
 * cairn-test: disk=32M cores=2 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int number;
static sigset_t waited;

static void tell(const char *what, int result) { printf("%s: %s\n", what, result < 0 ? strerror(errno) : "done"); }

/* The signals that came. */
static void came(const char *what) {
    struct timespec none = {0, 20 * 1000 * 1000};
    siginfo_t info;
    int first = 1, signal;
    printf("%s:", what);
    while ((signal = sigtimedwait(&waited, &info, &none)) > 0) {
        if (signal == SIGIO) printf(" SIGIO(%d)", info.si_code == SI_KERNEL);
        else printf(" %d(%d fd %d band %#lx)", signal - number, info.si_code, info.si_fd, (long)info.si_band);
        first = 0;
    }
    puts(first ? " nothing" : "");
}

static void make(const char *path) {
    int fd = open(path, O_CREAT | O_WRONLY, 0644);
    if (fd < 0) printf("%s: %s\n", path, strerror(errno));
    close(fd);
}

static void all(const char *folder) {
    char name[128], byte, before[256] = "/";
    if (!getcwd(before, sizeof before)) perror("getcwd");
    snprintf(name, sizeof name, "%s/sub", folder);
    mkdir(folder, 0755), mkdir(name, 0755), chdir(folder);
    make("file"), make("other");
    int plain = open("file", O_RDWR), path = open(".", O_PATH | O_DIRECTORY), fd = open(".", O_RDONLY | O_DIRECTORY);
    tell("a file", fcntl(plain, F_NOTIFY, DN_CREATE)), tell("a path", fcntl(path, F_NOTIFY, DN_CREATE)), tell("closed", fcntl(999, F_NOTIFY, DN_CREATE));
    tell("nothing yet", fcntl(fd, F_NOTIFY, 0)), tell("nothing of a file", fcntl(plain, F_NOTIFY, 0));
    tell("create", fcntl(fd, F_NOTIFY, DN_CREATE));
    printf("the owner is %s\n", fcntl(fd, F_GETOWN) == getpid() ? "this process" : "another");
    make("new"), make("new2"), came("created twice");
    tell("create again and again", fcntl(fd, F_NOTIFY, DN_CREATE | DN_MULTISHOT)), tell("by a signal", fcntl(fd, F_SETSIG, number));
    make("new3"), came("created"), mkdir("d", 0755), came("a folder"), link("file", "link"), came("a link"), symlink("file", "symlink"),
        came("a symbolic link"), mkfifo("fifo", 0600), came("a FIFO");
    unlink("new3"), came("removed, which was not asked for"), make("sub/deep"), came("deeper"), rename("sub/deep", "up"), came("moved here");
    tell("also delete", fcntl(fd, F_NOTIFY, DN_DELETE)), make("x"), came("created"), unlink("x"), came("removed"), rmdir("d"), came("a folder"),
        rename("up", "sub/up"), came("moved away");
    tell("no more", fcntl(fd, F_NOTIFY, 0)), make("y"), came("created");
    tell("modify", fcntl(fd, F_NOTIFY, DN_MODIFY | DN_MULTISHOT));
    if (write(plain, "x", 1) != 1) perror("write");
    came("written"), ftruncate(plain, 0), came("truncated"), fchmod(plain, 0600), came("mode"), fcntl(fd, F_NOTIFY, 0);
    tell("attributes", fcntl(fd, F_NOTIFY, DN_ATTRIB | DN_MULTISHOT)), fchmod(plain, 0644), came("mode"), chmod(".", 0700), came("its own mode"),
        chmod("sub", 0700), came("a folder's"), utimensat(AT_FDCWD, "file", NULL, 0), came("times"), fcntl(fd, F_NOTIFY, 0);
    if (write(plain, "xyz", 3) != 3) perror("write");
    tell("access", fcntl(fd, F_NOTIFY, DN_ACCESS | DN_MULTISHOT));
    if (pread(plain, &byte, 1, 0) != 1) perror("read");
    came("read");
    if (pread(plain, &byte, 1, 0) != 1) perror("read");
    came("read again"), fcntl(fd, F_NOTIFY, 0);
    tell("rename", fcntl(fd, F_NOTIFY, DN_RENAME | DN_MULTISHOT)), rename("other", "another"), came("renamed"), rename("another", "sub/other"),
        came("moved away"), rename("sub/other", "other"), came("moved here"), fcntl(fd, F_NOTIFY, 0);
    tell("all", fcntl(fd, F_NOTIFY, DN_RENAME | DN_CREATE | DN_DELETE)), rename("other", "another"), came("renamed"), rename("another", "other"),
        came("once more");
    tell("unknown bits", fcntl(fd, F_NOTIFY, 0x40)), make("z"), came("created");
    /* The owner, the signal, and who has the file. */
    tell("create", fcntl(fd, F_NOTIFY, DN_CREATE | DN_MULTISHOT)), tell("another signal", fcntl(fd, F_SETSIG, number + 1)), make("s1"),
        came("created"), tell("no signal of its own", fcntl(fd, F_SETSIG, 0)), make("s2"), came("created"), fcntl(fd, F_SETSIG, number);
    tell("nobody", fcntl(fd, F_SETOWN, 0)), make("s3"), came("created"), tell("this process", fcntl(fd, F_SETOWN, getpid()));
    int two = open(".", O_RDONLY | O_DIRECTORY);
    fcntl(two, F_SETSIG, number + 2), tell("another descriptor", fcntl(two, F_NOTIFY, DN_CREATE)), make("s4"), came("created"), make("s5"), came("created");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        make("s6"), came("a child creates and hears"), fcntl(fd, F_NOTIFY, 0), close(fd), close(two), fflush(stdout), _exit(0);
    }
    waitpid(pid, NULL, 0), came("a child created"), make("s7"), came("the child has ended");
    if ((pid = fork()) == 0) pause();
    close(fd), make("s8"), came("closed, though a child has it"), kill(pid, SIGKILL), waitpid(pid, NULL, 0);
    fd = open(".", O_RDONLY | O_DIRECTORY), fcntl(fd, F_SETSIG, number), fcntl(fd, F_NOTIFY, DN_CREATE | DN_MULTISHOT);
    for (int n = 0; n < 20; n++) snprintf(name, sizeof name, "many%d", n), make(name);
    came("many");
    /* Those of many descriptors, and none is left. */
    enum { MANY = 200 };
    int fds[MANY];
    for (int n = 0; n < MANY; n++) {
        fds[n] = open("sub", O_RDONLY | O_DIRECTORY);
        if (fds[n] < 0 || fcntl(fds[n], F_NOTIFY, DN_DELETE)) return (void)printf("%d: %s\n", n, strerror(errno));
    }
    for (int n = 0; n < MANY; n++) close(fds[n]);
    unlink("sub/up"), came("all closed");
    close(fd), close(two), close(plain), close(path), chdir(before);
}

static pthread_barrier_t begin;
static int shared;
static const int kinds[] = {DN_CREATE, DN_DELETE, DN_RENAME, DN_ATTRIB};

static void *asks(void *which) {
    pthread_barrier_wait(&begin);
    if (fcntl(shared, F_NOTIFY, kinds[(intptr_t)which] | DN_MULTISHOT)) perror("F_NOTIFY");
    return NULL;
}

/* Threads that ask for different changes of one file at once: each is told. */
static void together(void) {
    int lost = 0;
    mkdir("dn/together", 0755);
    pthread_barrier_init(&begin, NULL, 4);
    for (int round = 0; round < 200; round++) {
        pthread_t threads[4];
        struct timespec none = {0, 0}, some = {0, 100 * 1000 * 1000};
        siginfo_t info;
        shared = open("dn/together", O_RDONLY | O_DIRECTORY), fcntl(shared, F_SETSIG, number), fcntl(shared, F_SETOWN, getpid());
        for (intptr_t n = 0; n < 4; n++) pthread_create(&threads[n], NULL, asks, (void *)n);
        for (int n = 0; n < 4; n++) pthread_join(threads[n], NULL);
        make("dn/together/x"), chmod("dn/together/x", 0600), rename("dn/together/x", "dn/together/y"), unlink("dn/together/y");
        for (int n = 0; n < 4; n++) lost += sigtimedwait(&waited, &info, &some) != number;
        close(shared);
        while (sigtimedwait(&waited, &info, &none) > 0) {}
    }
    printf("%d were lost\n", lost);
}

static void again(const char *name) {
    int fd = open("dn", O_RDONLY | O_DIRECTORY);
    char text[64];
    fcntl(fd, F_SETSIG, number), fcntl(fd, F_NOTIFY, DN_CREATE);
    snprintf(text, sizeof text, "%d", fd);
    execl(name, name, text, NULL), perror("exec");
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    umask(022), number = SIGRTMIN + 3;
    sigemptyset(&waited), sigaddset(&waited, SIGIO);
    for (int n = 0; n < 3; n++) sigaddset(&waited, number + n);
    sigprocmask(SIG_BLOCK, &waited, NULL);
    if (argc > 1) {
        make("dn/after-exec"), came("after exec");
        return 0;
    }
    if (system("rm -rf dn users closed")) perror("rm");
    all("dn"), fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) again(argv[0]), _exit(1);
    waitpid(pid, NULL, 0);
    if ((pid = fork()) == 0) {
        mkdir("closed", 0700), mkdir("users", 0755), chown("users", 1000, 1000);
        int fd = open("closed", O_RDONLY);
        if (setgid(1000) || setuid(1000)) perror("setuid");
        puts("-- a user"), all("users/dn");
        tell("a folder that was opened for him", fcntl(fd, F_NOTIFY, DN_CREATE));
        fflush(stdout), _exit(0);
    }
    waitpid(pid, NULL, 0);
    together();
    return 0;
}
