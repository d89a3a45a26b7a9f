/* User 1000 asks for files outside of his root, below a folder that he may not search, and for another's FIFO, by names and below the personality: through every portal that he has, and those that `proc` gives.
 * cairn-test: linux=no */
#define _GNU_SOURCE
#include "gate.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 256, OPEN = 1, READ = 3, MOUNT_PORTAL = 24, MOUNTED = 46, FIFO = 49 };
#define INLINE (1ULL << 33)

static traverse *go;

/* A call with a short path: how many portals came, or -1. */
static int call(uint64_t slot, uint64_t operation, const char *path, struct gate *g) {
    size_t length = strlen(path);
    memset(g, 0, sizeof *g);
    g->rax = slot;
    g->words[0] = operation;
    if (operation == OPEN) {
        g->words[2] = INLINE | (uint64_t)length << 40;
        memcpy(&g->words[3], path, length);
    } else {
        g->rax |= 1ULL << 40;
        g->r14 = (uintptr_t)path, g->r15 = length;
    }
    go(g);
    return (g->rax & 255) == 0 && g->words[0] == 0 ? (int)(g->rax >> 16 & 15) : -1;
}

static int leaks, wrong;

static void look(const char *who, uint64_t slot, const char *path) {
    struct gate g;
    if (call(slot, OPEN, path, &g) != 1)
        return;
    uint64_t file = g.words[7];
    memset(&g, 0, sizeof g);
    g.rax = file;
    g.words[0] = READ, g.words[2] = INLINE | 6ULL << 40;
    go(&g);
    if ((g.rax & 255) == 0 && g.words[0] == 6 && memcmp(&g.words[3], "secret", 6) == 0) {
        printf("%s: %s through %u\n", who, path, (unsigned)slot);
        leaks++;
    }
    close((int)file);
}

static const char *const paths[] = {
    "secret", "../secret", "/secret", "../../secret", "tmp/secret", "../tmp/secret", "../../../tmp/secret", "tmp/jail/../secret", "closed/m/secret", "tmp/closed/m/secret", "../closed/m/secret",
    "d/../../secret", "up", "away", "self/root/tmp/secret", "1/root/tmp/secret", "../../dev/../tmp/secret",
};

static void attack(const char *who) {
    struct gate g;
    if (setgid(1000) || setuid(1000))
        exit(9);
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++) {
        int fd = open(paths[i], O_RDONLY);
        if (fd >= 0) {
            printf("%s: opened %s\n", who, paths[i]);
            leaks++;
        }
        for (uint64_t slot = SLOT_MOUNTS; slot < SLOTS; slot++)
            look(who, slot, paths[i]);
    }
    static const char *const places[] = {"tmp/closed/m", "closed/m", "../closed/m", "m", "/", ".", "..", "tmp", "../tmp/closed/m"};
    int given = 0;
    for (uint64_t slot = SLOT_MOUNTS; slot < SLOTS; slot++) {
        for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
            if (call(slot, MOUNTED, places[i], &g) == 1)
                look(who, g.words[7], "secret");
        }
    }
    for (uint64_t index = 0; index < MOUNTS; index++) {
        memset(&g, 0, sizeof g);
        g.rax = SLOT_PROC;
        g.words[0] = MOUNT_PORTAL, g.words[1] = index;
        go(&g);
        if ((g.rax & 255) == 0 && (g.rax >> 16 & 15) == 1) {
            given++;
            for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++)
                look(who, g.words[7], paths[i]);
        }
    }
    int nothing = leaks == 0 && given > 0;
    printf("%s: %s\n", who, nothing ? "nothing" : "leaks");
    fflush(stdout);
    _exit(!nothing);
}

static void write_secret(const char *name) {
    int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    if (fd < 0 || write(fd, "secret", 6) != 6)
        exit(8);
    close(fd);
}

static void run(void (*program)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    int status = 1;
    if (pid == 0)
        program();
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        wrong = 1, printf("ended with %x\n", status);
}

static void in_jail(void) {
    /* The secret's place was used before. */
    int fd = open("/tmp/secret", O_RDONLY);
    close(fd);
    if (chroot("/tmp/jail") || chdir("/d"))
        exit(7);
    attack("in a jail");
}

static void closed(void) {
    if (access("/tmp/closed/m/secret", R_OK))
        exit(6);
    unlink("/tmp/secret");
    attack("beside a closed folder");
}

/* Root's FIFO has a secret in it. Nobody who is not let through to its node reads it or writes to it, by whatever number or number of a node of his own. */
static int fifo;
static struct stat fifo_stat;

static void say_fifo(uint64_t slot, uint64_t inode) {
    struct gate g;
    char name[40];
    snprintf(name, sizeof name, "%llu", (unsigned long long)inode);
    look("a FIFO's number", slot, name);
    memset(&g, 0, sizeof g);
    g.rax = slot;
    g.words[0] = FIFO, g.words[1] = inode, g.words[2] = fifo_stat.st_dev, g.words[3] = 010666, g.words[4] = 1000 | 1000ULL << 32;
    go(&g);
    if ((g.rax & 255) == 0 && (g.rax >> 16 & 15) == 1) {
        uint64_t own = g.words[7];
        memset(&g, 0, sizeof g);
        g.rax = own;
        g.words[0] = OPEN, g.words[1] = O_RDWR | O_NONBLOCK;
        go(&g);
        if ((g.rax & 255) == 0 && g.words[0] == 0)
            look("a FIFO that was asked for", own, "");
    }
}

static void other_fifo(void) {
    struct gate g;
    if (setgid(1000) || setuid(1000))
        exit(9);
    int fds[2], tries = 0;
    close(fifo);
    if (open("/tmp/closed-fifo", O_RDONLY | O_NONBLOCK) >= 0 || pipe(fds))
        leaks++;
    for (uint64_t slot = SLOT_MOUNTS; slot < SLOT_MOUNTS + MOUNTS; slot++) {
        say_fifo(slot, fifo_stat.st_ino);
        tries++;
    }
    for (uint64_t index = 0; index < MOUNTS; index++) {
        memset(&g, 0, sizeof g);
        g.rax = SLOT_PROC;
        g.words[0] = MOUNT_PORTAL, g.words[1] = index;
        go(&g);
        if ((g.rax & 255) == 0 && (g.rax >> 16 & 15) == 1) {
            say_fifo(g.words[7], fifo_stat.st_ino);
            tries++;
        }
    }
    _exit(leaks != 0 || tries <= MOUNTS);
}

/* Who may search the folder reaches what is mounted there by the same names. */
static void opened(void) {
    if (setgid(1000) || setuid(1000))
        exit(9);
    int fd = open("/tmp/closed/m/secret", O_RDONLY);
    printf("folder open: %s\n", fd >= 0 ? "read" : strerror(errno));
    fflush(stdout);
    _exit(fd < 0);
}

int main(void) {
    go = find_gate();
    if (go == NULL)
        return 98;
    mkdir("/tmp/jail", 0755), mkdir("/tmp/jail/d", 0755), mkdir("/tmp/closed", 0700), mkdir("/tmp/closed/m", 0755);
    symlink("../secret", "/tmp/jail/up"), symlink("/tmp/secret", "/tmp/jail/away");
    write_secret("/tmp/secret");
    run(in_jail);
    if (mount("none", "/tmp/closed/m", "tmpfs", 0, "size=64k"))
        return 7;
    write_secret("/tmp/closed/m/secret");
    run(closed);
    chmod("/tmp/closed", 0711);
    run(opened);
    char kept[7] = "";
    if (mkfifo("/tmp/closed-fifo", 0600) || (fifo = open("/tmp/closed-fifo", O_RDWR | O_NONBLOCK | O_CLOEXEC)) < 0 || fstat(fifo, &fifo_stat) || write(fifo, "secret", 6) != 6)
        return 5;
    run(other_fifo);
    if (read(fifo, kept, 6) != 6 || strcmp(kept, "secret") != 0)
        wrong = 1, printf("the FIFO has %s\n", kept);
    unlink("/tmp/closed-fifo");
    if (umount("/tmp/closed/m"))
        wrong = 1, perror("umount");
    unlink("/tmp/jail/up"), unlink("/tmp/jail/away"), unlink("/tmp/secret");
    rmdir("/tmp/jail/d"), rmdir("/tmp/jail"), rmdir("/tmp/closed/m"), rmdir("/tmp/closed");
    return wrong;
}
