/* Flags of files (chattr(1)): append-only and immutable files and directories, what statx(2) tells of them, and what RENAME_WHITEOUT leaves. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define GETFLAGS 0x80086601
#define SETFLAGS 0x40086602
enum { IMMUTABLE = 0x10, APPEND = 0x20, NODUMP = 0x40 };
enum { NOREPLACE = 1, EXCHANGE = 2, WHITEOUT = 4 };

static void say(const char *what, long result) {
    if (result == -1) {
        printf("%s: %s\n", what, strerror(errno));
    } else {
        printf("%s: %ld\n", what, result);
    }
}

#define SAY(call) say(#call, (long)(call))
#define CAN(call) say(#call, (call) < 0 ? -1 : 0)

static void show(const char *name) {
    unsigned x[64] = {0}, flags[2] = {7, 7};
    int fd = open(name, O_RDONLY | O_NONBLOCK);
    SAY(ioctl(fd, GETFLAGS, flags));
    SAY(syscall(SYS_statx, AT_FDCWD, name, 0, 0x7ff, x));
    printf("%s: %x (%x), mask %x, attributes %x of %x\n", name, flags[0] & 0xf0, flags[1], x[0] & 0xfff, x[2] & 0x70, x[14] & 0x70);
    close(fd);
}

static void set(const char *name, int flags) {
    int fd = open(name, O_RDONLY | O_NONBLOCK);
    printf("%s %x ", name, flags);
    SAY(ioctl(fd, SETFLAGS, &flags));
    close(fd);
}

static void tries(void) {
    struct timespec times[2] = {{1, 0}, {1, 0}};
    CAN(open("f", O_RDONLY));
    CAN(open("f", O_WRONLY));
    CAN(open("f", O_RDWR | O_CREAT, 0600));
    CAN(open("f", O_RDONLY | O_TRUNC));
    CAN(open("f", O_WRONLY | O_APPEND | O_TRUNC));
    int fd = open("f", O_WRONLY | O_APPEND);
    if (fd >= 0) {
        SAY(write(fd, "x", 1));
        SAY(ftruncate(fd, 0));
        close(fd);
    }
    SAY(unlink("f"));
    SAY(rename("f", "g"));
    SAY(rename("other", "f"));
    SAY(link("f", "g"));
    SAY(chmod("f", 0600));
    SAY(chown("f", 1, 1));
    SAY(truncate("f", 1));
    SAY(utimensat(AT_FDCWD, "f", times, 0));
    SAY(utimensat(AT_FDCWD, "f", NULL, 0));
    SAY(setxattr("f", "trusted.a", "b", 1, 0));
    SAY(access("f", W_OK));
    SAY(access("f", R_OK));
}

static void files(void) {
    close(open("f", O_RDWR | O_CREAT, 0644));
    close(open("other", O_RDWR | O_CREAT, 0644));
    mkfifo("p", 0644);
    show("f");
    show("p");
    show(".");
    set("f", NODUMP);
    show("f");
    set("f", 0x400);
    set("f", 4);
    set("f", IMMUTABLE);
    show("f");
    tries();
    set("f", APPEND | NODUMP);
    show("f");
    tries();
    set("f", 0);
    int fd = open("f", O_RDWR);
    set("f", IMMUTABLE);
    SAY(write(fd, "here", 4));
    set("f", 0);
    /* Who opened it before goes on, but cannot change whether it appends. */
    int appends = open("f", O_WRONLY | O_APPEND);
    set("f", APPEND);
    SAY(fcntl(fd, F_SETFL, O_NONBLOCK));
    SAY(fcntl(fd, F_SETFL, O_NONBLOCK | O_APPEND));
    SAY(fcntl(appends, F_SETFL, O_APPEND | O_NONBLOCK));
    SAY(fcntl(appends, F_SETFL, 0));
    SAY(fcntl(appends, F_GETFL) & (O_APPEND | O_NONBLOCK));
    set("f", 0);
    SAY(fcntl(appends, F_SETFL, 0));
    close(appends);
    SAY(unlink("f"));
    SAY(ioctl(fd, GETFLAGS, NULL));
    SAY(ioctl(fd, SETFLAGS, NULL));
    close(fd);
}

static void directories(void) {
    mkdir("d", 0755);
    close(open("d/a", O_RDWR | O_CREAT, 0644));
    for (int flags = IMMUTABLE; flags <= APPEND; flags += IMMUTABLE) {
        set("d", flags);
        CAN(open("d/x", O_CREAT | O_RDWR, 0644));
        SAY(mkdir("d/y", 0755));
        SAY(symlink("a", "d/l"));
        SAY(unlink("d/a"));
        SAY(rename("d/a", "d/b"));
        SAY(rename("other", "d/o"));
        SAY(rmdir("d"));
        SAY(rename("d", "e"));
        CAN(open("d/a", O_RDWR));
    }
    set("d", 0);
    SAY(unlink("d/x"));
    SAY(rmdir("d/y"));
    SAY(unlink("d/l"));
    SAY(unlink("d/a"));
    SAY(unlink("d/o"));
    SAY(rmdir("d"));
}

static void strangers(void) {
    close(open("f", O_RDWR | O_CREAT, 0644));
    SAY(seteuid(1000));
    set("f", NODUMP);
    SAY(seteuid(0));
    chown("f", 1000, 1000);
    SAY(seteuid(1000));
    set("f", NODUMP);
    set("f", NODUMP | IMMUTABLE);
    set("f", APPEND);
    set("f", 0);
    SAY(seteuid(0));
    SAY(unlink("f"));
}

static void status(const char *name) {
    struct stat st = {0};
    SAY(lstat(name, &st));
    printf("%s: %o %lx %ld\n", name, st.st_mode, (long)st.st_rdev, (long)st.st_nlink);
}

static void whiteouts(void) {
    mkdir("d", 0755);
    close(open("a", O_RDWR | O_CREAT, 0644));
    SAY(syscall(SYS_renameat2, AT_FDCWD, "a", AT_FDCWD, "b", WHITEOUT));
    status("a");
    CAN(open("a", O_RDONLY));
    SAY(syscall(SYS_renameat2, AT_FDCWD, "b", AT_FDCWD, "a", WHITEOUT | NOREPLACE));
    SAY(syscall(SYS_renameat2, AT_FDCWD, "b", AT_FDCWD, "a", WHITEOUT | EXCHANGE));
    SAY(syscall(SYS_renameat2, AT_FDCWD, "b", AT_FDCWD, "a", WHITEOUT));
    status("a");
    status("b");
    SAY(syscall(SYS_renameat2, AT_FDCWD, "a", AT_FDCWD, "d/c", WHITEOUT | NOREPLACE));
    status("a");
    SAY(syscall(SYS_renameat2, AT_FDCWD, "d", AT_FDCWD, "e", WHITEOUT));
    status("d");
    status("e/c");
    SAY(syscall(SYS_renameat2, AT_FDCWD, "e", AT_FDCWD, "e/f", WHITEOUT));
    SAY(syscall(SYS_renameat2, AT_FDCWD, "none", AT_FDCWD, "f", WHITEOUT));
    SAY(syscall(SYS_renameat2, AT_FDCWD, "e", AT_FDCWD, "f", 8));
    SAY(unlink("a"));
    SAY(unlink("b"));
    SAY(unlink("d"));
    SAY(unlink("e/c"));
    SAY(rmdir("e"));
}

int main(void) {
    char folder[] = "/tmp/flags-XXXXXX";
    umask(022);
    if (mkdtemp(folder) == NULL || chmod(folder, 0777) < 0 || chdir(folder) < 0) {
        return 1;
    }
    files();
    directories();
    strangers();
    whiteouts();
    unlink("p");
    unlink("other");
    SAY(rmdir(folder));
    return 0;
}
