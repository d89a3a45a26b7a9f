/* Mounts on mounts: what is mounted last is seen, and what was there before when that goes; what moves takes along what is mounted in it and nothing else; what
 * fails changes nothing; threads and processes that move one mount at once leave it at one place; a thousand of them are copied and moved as a whole.
 * cairn-test: cores=2 musl=no */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OPEN_TREE = 428, MOVE_MOUNT, FSOPEN, FSCONFIG, FSMOUNT, FSPICK, SETATTR = 442 };
enum { FLAG, STRING, CREATE = 6, RECONFIGURE };
#define CLONE 1
#define EMPTY 0x1000
#define RECURSIVE 0x8000
#define PLACE "/tmp/mt"

static int tree(const char *path, unsigned flags) { return syscall(OPEN_TREE, AT_FDCWD, path, flags); }
static int onto(int fd, const char *new) { return syscall(MOVE_MOUNT, fd, "", AT_FDCWD, new, 4); }
static int moved(const char *old, const char *new) { return syscall(MOVE_MOUNT, AT_FDCWD, old, AT_FDCWD, new, 0); }

static int tell(const char *what, int result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "done");
    return result;
}

static void put(const char *path, const char *text) {
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) printf("put %s: %s\n", path, strerror(errno));
    close(fd);
}

static void show_at(int folder, const char *path) {
    char text[64] = "";
    int fd = openat(folder, path, O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0) printf("%s: %s\n", path, strerror(errno));
    else printf("%s: %s\n", path, text);
    if (fd >= 0) close(fd);
}

static void show(const char *path) { show_at(AT_FDCWD, path); }

static int in_order(const void *a, const void *b) { return strcmp(a, b); }

/* Lines of this process's mountinfo whose place begins so: how many, and (with `say`) place and options. */
static int mounts(const char *begins, int say) {
    static char all[64][300];
    char line[512], place[256], options[256];
    int count = 0;
    FILE *file = fopen("/proc/self/mountinfo", "r");
    if (!file) return -1;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*d %*d %*s %*s %255s %255s", place, options) != 2 || strncmp(place, begins, strlen(begins))) continue;
        if (say && count < 64) snprintf(all[count], sizeof all[0], "%s %.2s", place, options);
        count++;
    }
    fclose(file);
    if (!say || count > 64) return count;
    qsort(all, count, sizeof all[0], in_order);
    for (int n = 0; n < count; n++) printf("  %s\n", all[n]);
    return count;
}

/* A tmpfs there, with a file that says so. */
static int on(const char *place, const char *text) {
    char name[128];
    if (mount("none", place, "tmpfs", 0, "mode=755")) return -1;
    snprintf(name, sizeof name, "%s/file", place), put(name, text);
    return 0;
}

static int detached(const char *text) {
    int fd = syscall(FSOPEN, "tmpfs", 1);
    if (fd < 0 || syscall(FSCONFIG, fd, STRING, "mode", "755", 0) || syscall(FSCONFIG, fd, CREATE, NULL, NULL, 0)) return -1;
    int mount = syscall(FSMOUNT, fd, 1, 0), file = openat(mount, "file", O_CREAT | O_WRONLY, 0644);
    if (write(file, text, strlen(text)) < 0) perror("write");
    close(fd), close(file);
    return mount;
}

static void clean(void) {
    for (const char *const *name = (const char *const[]){PLACE "/a", PLACE "/b", PLACE "/c", PLACE "/d", NULL}; *name; name++)
        while (!umount2(*name, MNT_DETACH)) {}
    printf("%d mounts are left\n", mounts(PLACE, 1));
}

static void stacks(void) {
    tell("one", on(PLACE "/a", "one")), mkdir(PLACE "/a/x", 0755), tell("one in it", on(PLACE "/a/x", "in one"));
    int below = open(PLACE "/a", O_PATH), inner = open(PLACE "/a/x", O_PATH);
    tell("another on it", on(PLACE "/a", "two")), show(PLACE "/a/file"), show(PLACE "/a/x/file"), show_at(below, "file"), show_at(below, "x/file"),
        show_at(inner, "file");
    mkdir(PLACE "/a/x", 0755), tell("one in that", on(PLACE "/a/x", "in two")), show(PLACE "/a/x/file"), mounts(PLACE, 1);
    tell("the upper one moves", moved(PLACE "/a", PLACE "/b")), show(PLACE "/a/file"), show(PLACE "/a/x/file"), show(PLACE "/b/file"), show(PLACE "/b/x/file"),
        mounts(PLACE, 1);
    tell("and back", moved(PLACE "/b", PLACE "/a")), show(PLACE "/a/x/file");
    tell("busy", umount(PLACE "/a")), tell("its inner one", umount(PLACE "/a/x")), show(PLACE "/a/x/file"), tell("itself", umount2(PLACE "/a", MNT_DETACH)),
        show(PLACE "/a/file"), show(PLACE "/a/x/file");
    tell("a bind on it", mount(PLACE "/c", PLACE "/a", NULL, MS_BIND, NULL)), show(PLACE "/a/file"), tell("off", umount2(PLACE "/a", MNT_DETACH)), show(PLACE "/a/file");
    close(below), close(inner);
    tell("three on one place", on(PLACE "/d", "1")), on(PLACE "/d", "2"), on(PLACE "/d", "3"), show(PLACE "/d/file");
    for (int n = 0; n < 3; n++) tell("off", umount2(PLACE "/d", MNT_DETACH)), show(PLACE "/d/file");
    tell("off", umount2(PLACE "/d", MNT_DETACH));
    clean();
}

static void moves(void) {
    /* What something else hides stays where it is, and what was hidden at the target comes back. */
    on(PLACE "/a", "below"), mkdir(PLACE "/a/x", 0755), on(PLACE "/a/x", "in the lower one"), on(PLACE "/a", "above"), on(PLACE "/b", "at the target");
    mkdir(PLACE "/b/y", 0755), on(PLACE "/b/y", "in the target");
    tell("onto another", moved(PLACE "/a", PLACE "/b")), show(PLACE "/b/file"), show(PLACE "/b/y/file"), show(PLACE "/b/x/file"), show(PLACE "/a/x/file"), mounts(PLACE, 1);
    tell("away", moved(PLACE "/b", PLACE "/d")), show(PLACE "/b/y/file"), show(PLACE "/d/file");
    tell("the whole pile into itself", moved(PLACE "/b", PLACE "/b/y")), tell("no place", moved(PLACE "/b", PLACE "/none")), tell("a file", moved(PLACE "/b", PLACE "/plain")),
        show(PLACE "/b/y/file");
    tell("MS_MOVE into itself", mount(PLACE "/b", PLACE "/b/y", NULL, MS_MOVE, NULL)), tell("MS_MOVE of no mount", mount(PLACE "/c", PLACE "/b", NULL, MS_MOVE, NULL)),
        show(PLACE "/b/file"), mounts(PLACE, 1);
    tell("MS_MOVE", mount(PLACE "/b", PLACE "/c", NULL, MS_MOVE, NULL)), show(PLACE "/c/y/file"), show(PLACE "/b/file");
    clean();
}

/* By a user who has power over these mounts and not over what was there before. */
static void locked(void) {
    if (setgid(1000) || setuid(1000) || prctl(PR_SET_DUMPABLE, 1)) perror("setuid");
    tell("name spaces", unshare(CLONE_NEWUSER | CLONE_NEWNS));
    put("/proc/self/setgroups", "deny"), put("/proc/self/uid_map", "0 1000 1"), put("/proc/self/gid_map", "0 1000 1");
    tell("one of his", on(PLACE "/b", "his")), show(PLACE "/a/file");
    tell("what was there moves", moved(PLACE "/a", PLACE "/b")), show(PLACE "/b/file"), show(PLACE "/a/file");
    tell("MS_MOVE", mount(PLACE "/a", PLACE "/b", NULL, MS_MOVE, NULL)), show(PLACE "/b/file"), show(PLACE "/a/file");
    tell("it goes", umount2(PLACE "/a", MNT_DETACH)), show(PLACE "/a/file"), mounts(PLACE, 1);
    tell("his on it", on(PLACE "/a", "his as well")), show(PLACE "/a/file"), tell("which goes", umount2(PLACE "/a", MNT_DETACH)), show(PLACE "/a/file");
    tell("and the other one still not", umount2(PLACE "/a", MNT_DETACH));
}

static void chrooted(void) {
    int ready[2], go[2];
    char byte = 0;
    on(PLACE "/a", "outer"), mkdir(PLACE "/a/root", 0755), put(PLACE "/a/root/file", "in the root"), mkdir(PLACE "/a/root/m", 0755),
        on(PLACE "/a/root/m", "in a mount"), mkdir(PLACE "/a/root/m/d", 0755);
    if (pipe(ready) || pipe(go)) return;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (chroot(PLACE "/a/root") || chdir("/m/d")) perror("chroot");
        for (int n = 0; n < 2; n++) {
            char name[128] = "";
            show("/file"), show("/m/file"), show("../file"), show("../../file"), show("/m/../file"), show("/m/../../../m/file"), show("/../a/file");
            puts(getcwd(name, sizeof name) ? name : strerror(errno)), chdir("/m/d");
            tell("mount", on("/m/d", "new")), show("/m/d/file"), tell("umount", umount("/m/d"));
            fflush(stdout);
            if (n == 0 && (write(ready[1], "x", 1) != 1 || read(go[0], &byte, 1) != 1)) perror("pipe");
        }
        _exit(0);
    }
    if (read(ready[0], &byte, 1) != 1) perror("pipe");
    tell("what is above the root moves", moved(PLACE "/a", PLACE "/b")), mkdir(PLACE "/b/root/m/b", 0755), fflush(stdout);
    if (write(go[1], "x", 1) != 1) perror("pipe");
    waitpid(pid, NULL, 0), close(ready[0]), close(ready[1]), close(go[0]), close(go[1]);
    clean();
}

/* A context says which mount is meant, also in another mount name space. */
static void picked(void) {
    int ready[2], go[2];
    char byte = 0, name[64];
    if (pipe(ready) || pipe(go)) return;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        unshare(CLONE_NEWNS), mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
        for (int n = 0; n < 8; n++) on(PLACE "/d", "there");
        if (write(ready[1], "x", 1) != 1 || read(go[0], &byte, 1) != 1) perror("pipe");
        _exit(0);
    }
    if (read(ready[0], &byte, 1) != 1) perror("pipe");
    on(PLACE "/a", "here");
    int fd = syscall(FSPICK, AT_FDCWD, PLACE "/a", 0);
    tell("read only", syscall(FSCONFIG, fd, FLAG, "ro", NULL, 0)), snprintf(name, sizeof name, "/proc/%d/ns/mnt", pid);
    int space = open(name, O_RDONLY);
    tell("into another name space", setns(space, CLONE_NEWNS)), syscall(FSCONFIG, fd, RECONFIGURE, NULL, NULL, 0), mounts(PLACE, 1);
    for (int n = 0; n < 8; n++) put(PLACE "/d/new", "x"), umount2(PLACE "/d", MNT_DETACH);
    if (write(go[1], "x", 1) != 1) perror("pipe");
    waitpid(pid, NULL, 0);
}

enum { THREADS = 4, ROUNDS = 60 };
static int wanted[2];
static pthread_barrier_t begin;
static const char *const places[THREADS] = {PLACE "/a", PLACE "/b", PLACE "/c", PLACE "/d"};

static void *mover(void *number) {
    int own = (intptr_t)number;
    pthread_barrier_wait(&begin);
    for (int n = 0; n < 8; n++) {
        if (onto(wanted[n & 1], places[(own + n) % THREADS]) < 0 && errno != ELOOP) printf("move: %s\n", strerror(errno));
        if (own == 3 && moved(places[n % THREADS], places[own]) < 0 && errno != ELOOP && errno != EINVAL) printf("by name: %s\n", strerror(errno));
    }
    return NULL;
}

/* Places where a file of one of these mounts is seen. */
static int seen(void) {
    int count = 0;
    for (int n = 0; n < THREADS; n++) {
        char name[64], text = 0;
        snprintf(name, sizeof name, "%s/which", places[n]);
        int fd = open(name, O_RDONLY);
        if (fd >= 0 && read(fd, &text, 1) == 1) count += text == 'A' ? 1 : 10;
        if (fd >= 0) close(fd);
    }
    return count;
}

/* One or two mounts without a place, which threads (and with `apart` processes) move to four places at once: afterwards each is at one. (One may lie on the other.) */
static void together(int apart, int two) {
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        wanted[0] = detached("A"), wanted[1] = two ? detached("B") : wanted[0];
        for (int n = 0; n <= two; n++) {
            int fd = openat(wanted[n], "which", O_CREAT | O_WRONLY, 0644);
            if (write(fd, n ? "B" : "A", 1) != 1) perror("write");
            close(fd);
        }
        pid_t pid = apart ? fork() : 0;
        pthread_barrier_init(&begin, NULL, THREADS);
        for (intptr_t n = 0; n < THREADS; n++) pthread_create(&threads[n], NULL, mover, (void *)n);
        for (int n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
        if (apart && pid == 0) fflush(stdout), _exit(0);
        if (apart) waitpid(pid, NULL, 0);
        int listed = mounts(PLACE, 0), found = seen(), after;
        wrong += listed != 1 + two || (two ? found != 11 && found != 1 && found != 10 : found != 1);
        close(wanted[0]);
        if (two) close(wanted[1]);
        for (int n = 0; n < THREADS; n++)
            while (!umount2(places[n], 0)) listed--;
        after = mounts(PLACE, 0);
        wrong += listed || after || seen();
    }
    printf("%d are wrong\n", wrong);
    clean();
}

/* One makes, one unmounts, at one place: what is being made is nobody's to clear away. */
static void *maker(void *count) {
    pthread_barrier_wait(&begin);
    for (int n = 0; n < 200; n++)
        if (!mount("none", PLACE "/a", "tmpfs", 0, NULL)) ++*(int *)count;
        /* What it was to lie on may be gone. */
        else if (errno != EINVAL) printf("mount: %s\n", strerror(errno));
    return NULL;
}

static void *unmaker(void *count) {
    pthread_barrier_wait(&begin);
    for (int n = 0; n < 200; n++)
        if (!umount2(PLACE "/a", 0)) --*(int *)count;
        /* Something lies on it by now, or it is gone. */
        else if (errno != EINVAL && errno != EBUSY) printf("umount: %s\n", strerror(errno));
    return NULL;
}

static void made_and_unmade(void) {
    pthread_t threads[4];
    int counts[4] = {0};
    pthread_barrier_init(&begin, NULL, 4);
    for (int n = 0; n < 4; n++) pthread_create(&threads[n], NULL, n & 1 ? unmaker : maker, &counts[n]);
    for (int n = 0; n < 4; n++) pthread_join(threads[n], NULL);
    int left = counts[0] + counts[1] + counts[2] + counts[3];
    printf("%s are there\n", mounts(PLACE, 0) == left ? "as many as were made" : "others");
    while (!umount2(PLACE "/a", MNT_DETACH)) left--;
    printf("%d\n", left), clean();
}

enum { MANY = 1000 };

static void many(void) {
    char name[64], text[16];
    struct rlimit files = {4096, 4096};
    setrlimit(RLIMIT_NOFILE, &files);
    tell("what they are in", on(PLACE "/a", "all"));
    for (int n = 0; n < MANY; n++) {
        snprintf(name, sizeof name, PLACE "/a/%d", n), snprintf(text, sizeof text, "%d", n), mkdir(name, 0755);
        if (on(name, text)) return (void)tell(name, -1);
    }
    printf("%d mounts\n", mounts(PLACE, 0)), show(PLACE "/a/999/file");
    int all = tell("a copy of all", tree(PLACE "/a", CLONE | RECURSIVE));
    tell("read only", syscall(SETATTR, all, "", EMPTY | RECURSIVE, (uint64_t[]){1, 0, 0, 0}, 32));
    tell("mounted", onto(all, PLACE "/b")), printf("%d mounts\n", mounts(PLACE, 0)), show(PLACE "/b/0/file"), show(PLACE "/b/567/file"),
        tell("write", open(PLACE "/b/567/file", O_WRONLY));
    tell("moved", moved(PLACE "/b", PLACE "/c")), show(PLACE "/c/999/file"), show(PLACE "/b/999/file"), close(all);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        tell("a name space with them", unshare(CLONE_NEWNS)), printf("%d mounts\n", mounts(PLACE, 0)), show(PLACE "/c/321/file");
        tell("all but these", umount2(PLACE "/a", MNT_DETACH)), printf("%d mounts\n", mounts(PLACE, 0)), show(PLACE "/c/321/file"), fflush(stdout), _exit(0);
    }
    waitpid(pid, NULL, 0);
    tell("a bind of all", mount(PLACE "/a", PLACE "/d", NULL, MS_BIND | MS_REC, NULL)), show(PLACE "/d/444/file"), printf("%d mounts\n", mounts(PLACE, 0));
    clean();
}

static void in_child(const char *name, void (*what)(void)) {
    printf("-- %s\n", name), fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        unshare(CLONE_NEWNS), mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
        what(), fflush(stdout), _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void threads(void) { together(0, 0), together(0, 1); }
static void processes(void) { together(1, 0), together(1, 1); }

static void user(void) {
    on(PLACE "/a", "before"), fflush(stdout);
    if (fork() == 0) locked(), fflush(stdout), _exit(0);
    wait(NULL), clean();
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    umask(022);
    mkdir(PLACE, 0755), mkdir(PLACE "/a", 0755), mkdir(PLACE "/b", 0755), mkdir(PLACE "/c", 0755), mkdir(PLACE "/d", 0755);
    put(PLACE "/plain", "plain"), put(PLACE "/c/file", "on the disk");
    in_child("stacks", stacks), in_child("moves", moves), in_child("a user", user), in_child("a chroot", chrooted), in_child("contexts", picked),
        in_child("threads", threads), in_child("processes", processes), in_child("made and unmade", made_and_unmade), in_child("many", many);
    return 0;
}
