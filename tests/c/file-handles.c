/* name_to_handle_at and open_by_handle_at: what names a file goes on naming it, whatever it is called, until it is gone. cairn-test: disk=32M */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

union handle {
    struct file_handle h;
    char room[sizeof(struct file_handle) + 128];
};

static void tell(const char *what, long result) {
    if (result < 0) printf("%s: %s\n", what, strerror(errno));
    else printf("%s: done\n", what);
}

static int name(int dir, const char *path, union handle *into, int flags, int *mount) {
    into->h.handle_bytes = 128;
    return name_to_handle_at(dir, path, &into->h, mount, flags);
}

static void look(const char *what, int at, union handle *of, int flags) {
    char text[20] = "";
    int fd = open_by_handle_at(at, &of->h, flags);
    if (fd < 0) return tell(what, fd);
    if (read(fd, text, sizeof text - 1) < 0) strcpy(text, strerror(errno));
    printf("%s: %s\n", what, text), close(fd);
}

int main(void) {
    union handle file, other, folder, link;
    int mount, second;
    int fd = open("named", O_RDWR | O_CREAT, 0600);
    write(fd, "text", 4), close(fd);
    mkdir("folder", 0700), symlink("named", "link");
    file.h.handle_bytes = 0;
    tell("no room", name_to_handle_at(AT_FDCWD, "named", &file.h, &mount, 0));
    printf("  it takes %u, type %d\n", file.h.handle_bytes, file.h.handle_type);
    file.h.handle_bytes--;
    tell("too little", name_to_handle_at(AT_FDCWD, "named", &file.h, &mount, 0));
    file.h.handle_bytes = 129;
    tell("too much", name_to_handle_at(AT_FDCWD, "named", &file.h, &mount, 0));
    tell("the file", name(AT_FDCWD, "named", &file, 0, &mount));
    printf("  %u, type %d\n", file.h.handle_bytes, file.h.handle_type);
    tell("the folder", name(AT_FDCWD, "folder", &folder, 0, &second));
    printf("  the same mount: %d\n", mount == second);
    tell("/proc", name(AT_FDCWD, "/proc/self/stat", &other, 0, &second));
    tell("the root", name(AT_FDCWD, "/", &other, 0, &second));
    tell("the link", name(AT_FDCWD, "link", &link, 0, &second));
    tell("through it", name(AT_FDCWD, "link", &other, AT_SYMLINK_FOLLOW, &second));
    printf("  one and the same: %d, %d\n", !memcmp(other.h.f_handle, file.h.f_handle, file.h.handle_bytes),
           !memcmp(link.h.f_handle, file.h.f_handle, file.h.handle_bytes));
    fd = open("named", O_PATH);
    tell("by a descriptor", name(fd, "", &other, AT_EMPTY_PATH, &second)), close(fd);
    printf("  one and the same: %d\n", !memcmp(other.h.f_handle, file.h.f_handle, file.h.handle_bytes));
    tell("the working folder", name(AT_FDCWD, "", &other, AT_EMPTY_PATH, &second));
    tell("no name", name(AT_FDCWD, "", &other, 0, &second));
    tell("not there", name(AT_FDCWD, "nothing", &other, 0, &second));
    tell("flags", name(AT_FDCWD, "named", &other, AT_SYMLINK_NOFOLLOW, &second));
    int pipes[2];
    pipe(pipes);
    tell("a pipe", name(pipes[0], "", &other, AT_EMPTY_PATH, &second));
    tell("no such descriptor", name(99, "", &other, AT_EMPTY_PATH, &second));

    int here = open(".", O_RDONLY);
    look("opened", here, &file, O_RDONLY);
    look("from the working folder", AT_FDCWD, &file, O_RDONLY);
    rename("named", "folder/elsewhere");
    look("under another name", here, &file, O_RDONLY);
    look("to be written", here, &file, O_WRONLY);
    look("as a folder", here, &file, O_RDONLY | O_DIRECTORY);
    look("a folder", here, &folder, O_RDONLY);
    look("a folder to be written", here, &folder, O_RDWR);
    look("a link", here, &link, O_RDONLY);
    look("without opening it", here, &link, O_PATH);
    fd = open_by_handle_at(here, &folder.h, O_PATH | O_DIRECTORY);
    int below = openat(fd, "elsewhere", O_RDWR);
    tell("below it", below), close(fd);
    struct stat a, b;
    fd = open_by_handle_at(below, &file.h, O_RDWR);
    fstat(fd, &a), fstat(below, &b), write(fd, "TEXT", 4), close(fd), close(below);
    printf("the same file: %d\n", a.st_ino == b.st_ino);
    look("written", here, &file, O_RDONLY);
    chmod("folder/elsewhere", 0), chmod("folder", 0);
    look("for who may read everything", here, &file, O_RDONLY);
    chmod("folder", 0755), chmod("folder/elsewhere", 0644);
    fflush(stdout);
    if (fork() == 0) {
        setuid(1000);
        look("a user", here, &file, O_RDONLY), fflush(stdout);
        _exit(0);
    }
    wait(0);
    other = file, other.h.handle_bytes = 0;
    look("of no length", here, &other, O_RDONLY);
    other = file, other.h.handle_bytes = 129;
    look("too long", here, &other, O_RDONLY);
    other = file, memset(other.h.f_handle, 0xff, other.h.handle_bytes);
    look("of no file", here, &other, O_RDONLY);
    other = file, other.h.f_handle[other.h.handle_bytes - 1] ^= 1;
    look("of another one", here, &other, O_RDONLY);
    look("no such descriptor", 99, &file, O_RDONLY);
    tell("no memory", open_by_handle_at(here, (struct file_handle *)8, O_RDONLY));
    unlink("folder/elsewhere");
    look("gone", here, &file, O_RDONLY);
    fd = open("folder/elsewhere", O_RDWR | O_CREAT, 0600), write(fd, "new", 3), close(fd);
    look("another one of its name", here, &file, O_RDONLY);
    unlink("folder/elsewhere"), rmdir("folder");
    look("the folder is gone", here, &folder, O_RDONLY);
    unlink("link");
    return 0;
}
