/* Host and domain names: set by calls and by files of /proc, each UTS name space has its own, and who may. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "ok");
}

static void file(const char *name) {
    char path[64], text[128];
    snprintf(path, sizeof path, "/proc/sys/kernel/%s", name);
    int fd = open(path, O_RDONLY);
    long got = read(fd, text, sizeof text - 1);
    text[got > 0 ? got : 0] = 0;
    printf("  file %s: %s", name, text);
    close(fd);
}

static void names(const char *who) {
    struct utsname u;
    uname(&u);
    printf("%s: %s %s\n", who, u.nodename, u.domainname);
    file("hostname");
    file("domainname");
}

static void put(const char *name, const char *text) {
    char path[64];
    snprintf(path, sizeof path, "/proc/sys/kernel/%s", name);
    int fd = open(path, O_WRONLY);
    tell(path, fd < 0 ? -1 : write(fd, text, strlen(text)));
    close(fd);
}

static void inside(void) {
    tell("unshare", unshare(CLONE_NEWUTS));
    tell("host", sethostname("stone", 5));
    names("named");
    tell("domain", setdomainname("hill.example", 12));
    names("both");
    put("domainname", "dale\n");
    put("hostname", "rock\n");
    names("by files");
    char most[65];
    memset(most, 'x', sizeof most);
    tell("64", setdomainname(most, 64));
    names("long");
    tell("65", setdomainname(most, 65));
    tell("negative", syscall(SYS_setdomainname, most, -1));
    tell("bad address", syscall(SYS_setdomainname, (void *)8, 3));
    tell("none", setdomainname("", 0));
    names("empty");
    setdomainname("outer", 5);
    pid_t pid = fork();
    if (pid == 0) {
        tell("unshare", unshare(CLONE_NEWUTS));
        setdomainname("inner", 5);
        names("child");
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    names("parent");
}

static void as_user(void) {
    if (setgid(1000) || setuid(1000)) _exit(1);
    tell("user", setdomainname("x", 1));
    char most[65];
    memset(most, 0x78, sizeof most);
    tell("user, too long", setdomainname(most, 65));
    put("domainname", "x\n");
    tell("own spaces", unshare(CLONE_NEWUSER | CLONE_NEWUTS));
    tell("user", setdomainname("own", 3));
    names("user");
    put("domainname", "x\n");
}

static void child(void (*run)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        run();
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

int main(void) {
    setbuf(stdout, NULL);
    struct utsname u;
    // Whoever ran here before may have given it another one.
    tell("as it comes", setdomainname("(none)", 6));
    uname(&u);
    printf("at first %s\n", u.domainname);
    sethostname("cairn", 5);
    child(inside);
    child(as_user);
    uname(&u);
    printf("untouched %s\n", u.domainname);
    tell("in the first", setdomainname("first", 5));
    names("first");
    child(inside);
    tell("back", setdomainname("(none)", 6));
    names("first");
    return 0;
}
