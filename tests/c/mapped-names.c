/* What /proc/PID/maps shows of what is mapped: device, inode and name of files, also of those that are gone; heap and stack; memory that is shared, and of System V. In the directory where it is.
 * cairn-test: disk=32M */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

struct line {
    unsigned long start, end, offset, inode;
    unsigned major, minor;
    char rights[8], name[4200];
};

/* Where the files are, with a slash: names there are shown without it. */
static char here[4096];

/* The line of this process's (or another's) maps that has an address. */
static int find(const char *path, void *at, struct line *it) {
    static char text[8192];
    FILE *maps = fopen(path, "r");
    int found = 0;
    while (maps && !found && fgets(text, sizeof text, maps)) {
        memset(it, 0, sizeof *it);
        int name = 0;
        sscanf(text, "%lx-%lx %7s %lx %x:%x %lu %n", &it->start, &it->end, it->rights, &it->offset, &it->major, &it->minor, &it->inode, &name);
        strcpy(it->name, text + name);
        it->name[strcspn(it->name, "\n")] = 0;
        if (!strncmp(it->name, here, strlen(here))) {
            memmove(it->name, it->name + strlen(here), strlen(it->name + strlen(here)) + 1);
        }
        found = (unsigned long)at >= it->start && (unsigned long)at < it->end;
    }
    if (maps) fclose(maps);
    return found;
}

static void show(const char *what, void *at, const struct stat *file) {
    struct line it;
    if (!find("/proc/self/maps", at, &it)) {
        printf("%s: no line\n", what);
        return;
    }
    printf("%s: %s %lx \"%s\"", what, it.rights, it.offset, it.name);
    if (file) {
        printf(" device %d, inode %d", makedev(it.major, it.minor) == file->st_dev, it.inode == file->st_ino);
    } else {
        printf(" device %02x:%02x, inode %s", it.major, it.minor, it.inode ? "some" : "0");
    }
    printf("\n");
}

static char *map(int fd, int rights, int how, off_t at) {
    char *all = mmap(0, 8192, rights, how, fd, at);
    if (all == MAP_FAILED) perror("mmap"), exit(1);
    return all;
}

static int make(const char *name) {
    int fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, 5 * 4096)) perror(name), exit(1);
    return fd;
}

static void files(void) {
    struct stat file, gone;
    int fd = make("mapped/a file");
    fstat(fd, &file);
    show("shared", map(fd, PROT_READ | PROT_WRITE, MAP_SHARED, 4096), &file);
    char *private = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE, 8192);
    show("private", private, &file);
    private[0] = 1;
    show("private and written", private, &file);
    show("to be executed", map(fd, PROT_READ | PROT_EXEC, MAP_PRIVATE, 0), &file);
    close(fd);
    show("closed", private, &file);
    rename("mapped/a file", "mapped/it");
    show("renamed", private, &file);
    mkdir("mapped/deep", 0700);
    rename("mapped/it", "mapped/deep/it");
    rename("mapped/deep", "mapped/deeper");
    show("in a renamed directory", private, &file);
    link("mapped/deeper/it", "mapped/second");
    unlink("mapped/deeper/it");
    struct line it;
    printf("one name of two is gone: %s\n", find("/proc/self/maps", private, &it) && it.inode == file.st_ino ? "the inode" : "another");
    fd = make("mapped/gone");
    fstat(fd, &gone);
    char *open_one = map(fd, PROT_READ, MAP_SHARED, 0);
    unlink("mapped/gone");
    show("unlinked and open", open_one, &gone);
    close(fd);
    show("unlinked and closed", open_one, &gone);
    fd = make("mapped/other");
    fstat(fd, &file);
    char *closed = map(fd, PROT_READ, MAP_PRIVATE, 0);
    close(fd);
    unlink("mapped/other");
    show("closed and unlinked", closed, &file);
    fd = make("mapped/other");
    show("and another of that name is there", closed, &file);
    show("the first one still", open_one, &gone);
    fd = make("mapped/a\nb \\ (deleted)");
    fstat(fd, &file);
    show("an odd name", map(fd, PROT_READ, MAP_SHARED, 0), &file);
    close(fd);
    fd = memfd_create("memory", 0);
    ftruncate(fd, 8192);
    char *memory = map(fd, PROT_READ, MAP_SHARED, 0);
    if (find("/proc/self/maps", memory, &it)) printf("memfd: %.7s, %s\n", it.name, strstr(it.name, " (deleted)"));
}

static int bss[3000];

static void others(void) {
    show("private memory", map(-1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 0), 0);
    show("no rights", map(-1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, 0), 0);
    char *shared = map(-1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, 0);
    show("shared memory", shared, 0);
    char *before = sbrk(8192);
    memset(before, 1, 8192);
    show("heap", before + 4096, 0);
    show("stack", &before, 0);
    int id = shmget(0x5356, 8192, IPC_CREAT | 0600);
    char *segment = shmat(id, 0, SHM_RDONLY);
    struct line it;
    if (find("/proc/self/maps", segment, &it)) {
        printf("segment: %s \"%s\" %02x:%02x %d\n", it.rights, it.name, it.major, it.minor, it.inode == (unsigned long)id);
    }
    shmctl(id, IPC_RMID, 0);
    if (find("/proc/self/maps", segment, &it)) printf("removed: \"%s\" %d\n", it.name, it.inode == (unsigned long)id);
    struct stat own;
    stat("/proc/self/exe", &own);
    char path[4096] = "";
    readlink("/proc/self/exe", path, sizeof path - 1);
    if (find("/proc/self/maps", (void *)(unsigned long)others, &it)) {
        printf("program: %s, name %d, inode %d, device %d\n", it.rights, it.name[0] && strstr(path, it.name), it.inode == own.st_ino, makedev(it.major, it.minor) == own.st_dev);
    }
    bss[2999] = 1;
    if (find("/proc/self/maps", &bss[2999], &it)) printf("its own data: %s\n", it.rights);
    /* The child's are the parent's. */
    fflush(stdout);
    int said[2];
    if (pipe(said)) perror("pipe"), exit(1);
    pid_t child = fork();
    if (!child) {
        show("shared memory in a child", shared, 0);
        fflush(stdout);
        close(said[1]);
        pause();
    }
    close(said[1]);
    char name[64], byte;
    if (read(said[0], &byte, 1) != 0) perror("read"), exit(1);
    snprintf(name, sizeof name, "/proc/%d/maps", child);
    if (find(name, before, &it)) printf("a child's heap: \"%s\"\n", it.name);
    kill(child, 9);
    wait(0);
    /* smaps has the same lines. */
    FILE *smaps = fopen("/proc/self/smaps", "r");
    char text[4200];
    int heap = 0, deleted = 0;
    while (smaps && fgets(text, sizeof text, smaps)) {
        heap += strstr(text, " [heap]\n") != 0;
        deleted += strstr(text, "/mapped/gone (deleted)\n") != 0;
    }
    printf("smaps: %d %d\n", heap, deleted);
}

/* As many files as you like at once, each of which is mapped twice. */
static void many(void) {
    enum { FILES = 700 };
    static char *at[FILES][2];
    char name[64];
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "mapped/n%03d", i);
        int fd = make(name);
        for (int second = 0; second < 2; second++) at[i][second] = map(fd, PROT_READ, MAP_SHARED, 8192 * second);
        close(fd);
    }
    FILE *maps = fopen("/proc/self/maps", "r");
    static char text[8192];
    int right = 0;
    while (maps && fgets(text, sizeof text, maps)) {
        unsigned long start, offset;
        int number;
        char *of = strstr(text, "/mapped/n");
        if (!of || sscanf(of, "/mapped/n%d\n", &number) != 1 || number >= FILES) continue;
        if (sscanf(text, "%lx-%*x %*s %lx", &start, &offset) == 2 && offset <= 8192) right += start == (unsigned long)at[number][offset / 8192];
    }
    printf("many: %d\n", right);
    fclose(maps);
}

int main(void) {
    if (!getcwd(here, sizeof here - 2)) perror("getcwd"), exit(1);
    strcat(here, "/");
    mkdir("mapped", 0700);
    files();
    others();
    many();
    return system("rm -r mapped");
}
