/* inotify: every kind of event on files and folders, what a queue says when it is full, one-shot and replaced watches, deleted files, rights, readiness, sharing; on the root's file system and with many watches. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static int q;

static void say(const char *what, long result) {
    printf("%s: %s\n", what, result >= 0 ? "ok" : strerror(errno));
}

/* All events that are there, with watches as they are numbered. */
static void drain(const char *what) {
    static char buffer[1 << 16] __attribute__((aligned(8)));
    static const struct { unsigned bit; const char *name; } names[] = {
        {IN_ACCESS, "ACCESS"}, {IN_MODIFY, "MODIFY"}, {IN_ATTRIB, "ATTRIB"}, {IN_CLOSE_WRITE, "CLOSE_WRITE"}, {IN_CLOSE_NOWRITE, "CLOSE_NOWRITE"},
        {IN_OPEN, "OPEN"}, {IN_MOVED_FROM, "MOVED_FROM"}, {IN_MOVED_TO, "MOVED_TO"}, {IN_CREATE, "CREATE"}, {IN_DELETE, "DELETE"},
        {IN_DELETE_SELF, "DELETE_SELF"}, {IN_MOVE_SELF, "MOVE_SELF"}, {IN_UNMOUNT, "UNMOUNT"}, {IN_Q_OVERFLOW, "OVERFLOW"}, {IN_IGNORED, "IGNORED"}, {IN_ISDIR, "ISDIR"},
    };
    unsigned cookie = 0;
    printf("%s:", what);
    for (;;) {
        ssize_t count = read(q, buffer, sizeof buffer);
        if (count < 0) {
            if (errno != EAGAIN) printf(" %s", strerror(errno));
            break;
        }
        for (char *at = buffer; at < buffer + count;) {
            struct inotify_event *event = (void *)at;
            printf(" %d", event->wd);
            unsigned rest = event->mask;
            for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                if (rest & names[i].bit) printf("|%s", names[i].name), rest &= ~names[i].bit;
            if (rest) printf("|%x", rest);
            if (event->cookie) printf(event->cookie == cookie ? "(same)" : "(cookie)");
            cookie = event->cookie;
            if (event->len) printf("=%s/%u", event->name, event->len);
            at += sizeof *event + event->len;
        }
    }
    printf("\n");
    fflush(stdout);
}

static void put(const char *name, const char *text, int flags) {
    int fd = open(name, O_WRONLY | O_CREAT | flags, 0644);
    if (*text && write(fd, text, strlen(text)) < 0) perror("write");
    close(fd);
}

static void in_folder(void) {
    char byte[4];
    mkdir("d", 0755);
    printf("watch %d\n", inotify_add_watch(q, "d", IN_ALL_EVENTS));
    put("d/a", "text", 0);
    drain("create and write");
    int fd = open("d/a", O_RDWR);
    if (read(fd, byte, 4) != 4) perror("read");
    drain("read");
    if (read(fd, byte, 4) != 0) perror("read");
    drain("read at the end");
    if (pwrite(fd, "x", 1, 0) != 1 || pwrite(fd, "y", 1, 1) != 1) perror("write");
    drain("two writes are one");
    if (ftruncate(fd, 2)) perror("ftruncate");
    drain("truncate");
    fchmod(fd, 0600);
    drain("chmod");
    close(fd);
    drain("close");
    put("d/a", "", O_TRUNC);
    drain("truncated by open");
    utimensat(AT_FDCWD, "d/a", NULL, 0);
    drain("times");
    struct timespec one[2] = {{5, 0}, {0, UTIME_OMIT}};
    utimensat(AT_FDCWD, "d/a", one, 0);
    drain("access time");
    if (chown("d/a", 0, 0)) perror("chown");
    drain("chown");
    mkdir("d/sub", 0755);
    drain("mkdir");
    if (symlink("nowhere", "d/link")) perror("symlink");
    drain("symlink");
    mkfifo("d/fifo", 0600);
    drain("mkfifo");
    if (link("d/a", "d/b")) perror("link");
    drain("link");
    unlink("d/b");
    drain("unlink of one name");
    rename("d/a", "d/a-name-that-is-longer-than-one-step");
    drain("rename");
    rename("d/a-name-that-is-longer-than-one-step", "a");
    drain("moved out");
    rename("a", "d/in");
    drain("moved in");
    put("d/over", "", 0);
    drain("another");
    rename("d/in", "d/over");
    drain("replaced");
    fd = open("d", O_RDONLY | O_DIRECTORY);
    drain("opened");
    close(fd);
    drain("closed");
    unlink("d/over"), unlink("d/link"), unlink("d/fifo");
    drain("unlinked");
    rmdir("d/sub");
    drain("rmdir");
    say("chdir is nothing", chdir("d")), say("and back", chdir(".."));
    drain("nothing");
    rename("d", "e");
    drain("moved itself");
    rmdir("e");
    drain("gone");
    say("rm_watch of what is gone", inotify_rm_watch(q, 1));
}

static void on_file(void) {
    put("f", "one", 0);
    int wd = inotify_add_watch(q, "f", IN_ALL_EVENTS);
    printf("watch %d\n", wd);
    put("f", "two", 0);
    drain("written");
    printf("again %d\n", inotify_add_watch(q, "f", IN_MODIFY));
    put("f", "three", 0);
    drain("only modify");
    printf("added %d\n", inotify_add_watch(q, "f", IN_CLOSE_WRITE | IN_MASK_ADD));
    put("f", "four", 0);
    drain("modify and close");
    say("create", inotify_add_watch(q, "f", IN_OPEN | IN_MASK_CREATE));
    say("create and add", inotify_add_watch(q, "f", IN_OPEN | IN_MASK_CREATE | IN_MASK_ADD));
    say("rm_watch", inotify_rm_watch(q, wd));
    drain("ignored");
    say("twice", inotify_rm_watch(q, wd));
    printf("once %d\n", inotify_add_watch(q, "f", IN_OPEN | IN_CLOSE | IN_ONESHOT));
    put("f", "", 0);
    drain("one-shot");
    put("f", "", 0);
    drain("no more");
    printf("attributes %d\n", inotify_add_watch(q, "f", IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF));
    rename("f", "g");
    drain("renamed");
    if (link("g", "h")) perror("link");
    drain("linked");
    unlink("h");
    drain("unlinked once");
    int fd = open("g", O_RDONLY);
    unlink("g");
    drain("unlinked, open");
    close(fd);
    drain("closed");
    put("k", "", 0), put("l", "", 0);
    printf("two %d %d\n", inotify_add_watch(q, "k", IN_ALL_EVENTS), inotify_add_watch(q, "l", IN_DELETE_SELF | IN_MOVE_SELF));
    rename("k", "l");
    drain("one over the other");
    unlink("l");
    drain("and away");
    if (symlink("nowhere", "s")) perror("symlink");
    printf("link itself %d\n", inotify_add_watch(q, "s", IN_DELETE_SELF | IN_DONT_FOLLOW));
    unlink("s");
    drain("link away");
}

static void refused(void) {
    put("r", "", 0);
    say("no bits", inotify_add_watch(q, "r", 0));
    say("no such file", inotify_add_watch(q, "nosuch", IN_OPEN));
    say("empty name", inotify_add_watch(q, "", IN_OPEN));
    say("not a folder", inotify_add_watch(q, "r", IN_OPEN | IN_ONLYDIR));
    say("bad address", inotify_add_watch(q, (char *)8, IN_OPEN));
    say("not a queue", inotify_add_watch(0, "r", IN_OPEN));
    say("not open", inotify_add_watch(99, "r", IN_OPEN));
    say("rm not a queue", inotify_rm_watch(0, 1));
    say("rm nothing", inotify_rm_watch(q, 9999));
    say("rm negative", inotify_rm_watch(q, -1));
    say("flags", inotify_init1(1));
    say("write", write(q, "x", 1));
    char small[8];
    say("empty and small", read(q, small, 8));
    int wd = inotify_add_watch(q, "r", IN_OPEN);
    close(open("r", O_RDONLY));
    say("small", read(q, small, 8));
    int count = 0;
    say("FIONREAD", ioctl(q, FIONREAD, &count));
    printf("%d bytes\n", count);
    drain("still there");
    inotify_rm_watch(q, wd);
    drain("gone");
    /* What may not be read may not be watched. */
    chmod("r", 0200);
    fflush(stdout);
    if (fork() == 0) {
        if (setgid(1000) || setuid(1000)) perror("setuid");
        say("as another", inotify_add_watch(q, "r", IN_OPEN));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    struct stat status;
    fstat(q, &status);
    printf("mode %o size %ld\n", status.st_mode, (long)status.st_size);
    char link[64] = "";
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", q);
    if (readlink(name, link, sizeof link - 1) < 0) perror("readlink");
    printf("%s\n", link);
}

static void readiness(void) {
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = q};
    say("epoll_ctl", epoll_ctl(set, EPOLL_CTL_ADD, q, &event));
    inotify_add_watch(q, ".", IN_CREATE | IN_DELETE);
    printf("none %d\n", epoll_wait(set, &event, 1, 0));
    put("w", "", 0);
    printf("some %d\n", epoll_wait(set, &event, 1, 0));
    struct pollfd one = {.fd = q, .events = POLLIN | POLLOUT};
    int ready = poll(&one, 1, 0);
    printf("poll %d %x\n", ready, one.revents);
    drain("created");
    printf("none %d\n", epoll_wait(set, &event, 1, 0));
    /* A child makes the file that a reader waits for, and reads from the same queue. */
    fcntl(q, F_SETFL, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        usleep(20000);
        unlink("w");
        _exit(0);
    }
    char buffer[sizeof(struct inotify_event) + NAME_MAX + 1] __attribute__((aligned(8)));
    ssize_t count = read(q, buffer, sizeof buffer);
    struct inotify_event *gone = (void *)buffer;
    printf("waited: %zd %x %s\n", count, gone->mask, gone->name);
    waitpid(child, NULL, 0);
    fcntl(q, F_SETFL, O_NONBLOCK);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        put("w", "", 0);
        drain("in the child");
        /* The watch of its parent is replaced from here. */
        printf("same %d\n", inotify_add_watch(q, ".", IN_DELETE) == gone->wd);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    unlink("w");
    put("w", "", 0);
    drain("in the parent");
    close(set);
    inotify_rm_watch(q, gone->wd);
    drain("over");
}

static void full(void) {
    char name[16];
    mkdir("many", 0755);
    int wd = inotify_add_watch(q, "many", IN_CREATE | IN_DELETE);
    put("many/x", "", 0);
    for (int i = 0; i < 8200; i++) {
        snprintf(name, sizeof name, "many/%d", i & 1);
        put(name, "", 0), unlink(name);
    }
    static char buffer[1 << 20] __attribute__((aligned(8)));
    long events = 0, lost = 0, last = 0;
    ssize_t count;
    while ((count = read(q, buffer, sizeof buffer)) > 0)
        for (char *at = buffer; at < buffer + count;) {
            struct inotify_event *event = (void *)at;
            events++;
            last = event->mask;
            if (event->mask & IN_Q_OVERFLOW) lost += event->wd == -1 && event->len == 0;
            at += sizeof *event + event->len;
        }
    printf("%ld events, %ld times lost, at last %lx\n", events, lost, last);
    put("many/y", "", 0);
    drain("after that");
    inotify_rm_watch(q, wd);
    drain("over");
    unlink("many/x"), unlink("many/y");
    /* Many watches; each is a number of its own, and all go with the queue. */
    int other = inotify_init1(IN_NONBLOCK);
    int right = 0;
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "many/%d", i);
        put(name, "", 0);
        right += inotify_add_watch(other, name, IN_OPEN) == i + 1;
    }
    printf("%d watches\n", right);
    close(open("many/1234", O_RDONLY));
    int mine = q;
    q = other;
    drain("one of many");
    q = mine;
    close(other);
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "many/%d", i);
        unlink(name);
    }
    say("rmdir", rmdir("many"));
    int queues[200], made = 0;
    while (made < 200 && (queues[made] = inotify_init()) >= 0) made++;
    printf("%d queues of at most 128: %s\n", made > 100, strerror(errno));
    while (made > 0) close(queues[--made]);
    say("again", (made = inotify_init1(IN_CLOEXEC)));
    printf("closes on exec: %d\n", fcntl(made, F_GETFD));
}

int main(void) {
    char folder[] = "/tmp/inotify-XXXXXX";
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    if (!mkdtemp(folder) || chmod(folder, 0755) || chdir(folder)) return perror(folder), 1;
    q = inotify_init1(IN_NONBLOCK);
    in_folder();
    on_file();
    refused();
    readiness();
    full();
    return 0;
}
