/* System V shared memory: what each call says, who may, how often a segment is attached whatever becomes of those who have it, and that a removed one lives as long as it is attached. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY 0x5eed
#define SIZE 10000

static void tell(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "done");
}

static int attached(int id) {
    struct shmid_ds ds;
    return shmctl(id, IPC_STAT, &ds) ? -errno : (int)ds.shm_nattch;
}

/* What is told last of an ended process may take a moment. */
static int attached_at_last(int id, int wanted) {
    for (int i = 0; i < 2000 && attached(id) != wanted; i++) usleep(1000);
    return attached(id);
}

static void in_child(void (*run)(int), int id) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) run(id), fflush(stdout), _exit(0);
    waitpid(pid, 0, 0);
}

static void stranger(int id) {
    if (setgid(1001) || setuid(1001)) return;
    struct shmid_ds ds = {0};
    tell("stranger: get to read", shmget(KEY, 0, 0400));
    tell("stranger: get", shmget(KEY, 0, 0));
    tell("stranger: attach", (long)shmat(id, 0, 0));
    tell("stranger: attach to read", (long)shmat(id, 0, SHM_RDONLY));
    tell("stranger: stat", shmctl(id, IPC_STAT, &ds));
    tell("stranger: set", shmctl(id, IPC_SET, &ds));
    tell("stranger: remove", shmctl(id, IPC_RMID, 0));
}

static void reader(int id) {
    if (setgid(1001) || setuid(1001)) return;
    tell("reader: attach", (long)shmat(id, 0, 0));
    char *at = shmat(id, 0, SHM_RDONLY);
    printf("reader: reads %s\n", at == (void *)-1 ? strerror(errno) : at);
    tell("reader: protect", mprotect(at, 4096, PROT_READ | PROT_WRITE));
    tell("reader: execute", (long)shmat(id, 0, SHM_RDONLY | SHM_EXEC));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) *at = 'x', _exit(0);
    int status;
    waitpid(pid, &status, 0);
    printf("reader: writing ends it with %d\n", WTERMSIG(status));
}

int main(int argc, char **argv) {
    /* What others left is there as well. */
    struct shm_info before;
    shmctl(0, SHM_INFO, (void *)&before);
    struct shmid_ds ds;
    if (argc > 1) {
        printf("after exec: %d\n", attached(atoi(argv[1])));
        return 0;
    }
    tell("get what is not there", shmget(KEY, SIZE, 0600));
    tell("get nothing", shmget(KEY, 0, IPC_CREAT | 0600));
    tell("get too much", shmget(KEY, ~0ul, IPC_CREAT | 0600));
    int id = shmget(KEY, SIZE, IPC_CREAT | IPC_EXCL | 0600);
    tell("make", id);
    tell("make again", shmget(KEY, SIZE, IPC_CREAT | IPC_EXCL | 0600));
    printf("the same: %d\n", shmget(KEY, SIZE, IPC_CREAT | 0600) == id && shmget(KEY, 0, 0) == id);
    tell("larger", shmget(KEY, SIZE + 1, 0600));
    int private = shmget(IPC_PRIVATE, 1, 0600), other = shmget(IPC_PRIVATE, 1, 0600);
    printf("private ones differ: %d\n", private >= 0 && other >= 0 && private != other);

    shmctl(id, IPC_STAT, &ds);
    printf("%lu bytes, mode %o, key %x, attached %lu, cpid %d, lpid %d, atime %d, dtime %d, ctime %d\n", ds.shm_segsz, ds.shm_perm.mode, ds.shm_perm.__key, ds.shm_nattch,
           ds.shm_cpid == getpid(), ds.shm_lpid, ds.shm_atime != 0, ds.shm_dtime != 0, ds.shm_ctime != 0);
    tell("stat of none", shmctl(-1, IPC_STAT, &ds));
    tell("stat into nowhere", shmctl(id, IPC_STAT, (void *)8));
    tell("set from nowhere", shmctl(id, IPC_SET, (void *)8));
    tell("no command", shmctl(id, 77, &ds));
    tell("attach none", (long)shmat(-1, 0, 0));
    tell("attach at an odd address", (long)shmat(id, (void *)0x10001, 0));
    tell("remap nowhere", (long)shmat(id, 0, SHM_REMAP));
    tell("detach nothing", shmdt((void *)0x7000000));
    tell("detach a function", shmdt((void *)((long)main & ~4095l)));
    tell("detach an odd address", shmdt((void *)1));

    char *a = shmat(id, 0, 0), *b = shmat(id, 0, SHM_RDONLY);
    printf("at two places: %d, zeroes: %d, attached %d\n", a != b, a[0] == 0 && a[SIZE] == 0, attached(id));
    strcpy(a, "shared");
    printf("seen at the other: %s\n", b);
    tell("attach where something is", (long)shmat(id, b, 0));
    char *c = shmat(id, b + 77, SHM_RND | SHM_REMAP);
    printf("in its place: %d, attached %d\n", c == b, attached(id));
    strcpy(c, "written");
    printf("%s\n", a);
    tell("detach", shmdt(c));
    tell("detach again", shmdt(c));
    tell("detach in the middle", shmdt(a + 4096));
    char *there = mmap(0, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(there, 3 * 4096);
    printf("where it is wanted: %d\n", shmat(id, there, 0) == there);
    printf("and rounded: %d\n", shmdt(there) == 0 && shmat(id, there + 5, SHM_RND) == there && shmdt(there) == 0);
    shmctl(id, IPC_STAT, &ds);
    printf("attached %lu, lpid %d, atime %d, dtime %d\n", ds.shm_nattch, ds.shm_lpid == getpid(), ds.shm_atime != 0, ds.shm_dtime != 0);

    /* Who has it. */
    fflush(stdout);
    int ready[2], go[2];
    if (pipe(ready) || pipe(go)) return 1;
    pid_t pids[3];
    for (int i = 0; i < 3; i++)
        if ((pids[i] = fork()) == 0) {
            if (i == 2) shmat(id, 0, 0);
            write(ready[1], "r", 1);
            char byte;
            if (i == 0) read(go[0], &byte, 1), _exit(0);
            for (;;) pause();
        }
    char buffer[3];
    for (int i = 0; i < 3; i++) read(ready[0], buffer, 1);
    printf("with three children: %d\n", attached(id));
    write(go[1], "g", 1);
    waitpid(pids[0], 0, 0);
    printf("one ended: %d\n", attached_at_last(id, 4));
    kill(pids[2], SIGKILL);
    waitpid(pids[2], 0, 0);
    printf("one with two killed: %d\n", attached_at_last(id, 2));
    fflush(stdout);
    if (fork() == 0) {
        char number[16];
        sprintf(number, "%d", id);
        execl(argv[0], argv[0], number, (char *)0);
        _exit(1);
    }
    wait(0);
    kill(pids[1], SIGKILL);
    waitpid(pids[1], 0, 0);
    printf("only here: %d\n", attached_at_last(id, 1));

    /* Who may. */
    in_child(stranger, id);
    ds.shm_perm.mode = 0644, ds.shm_perm.uid = 1000, ds.shm_perm.gid = 1000;
    tell("set", shmctl(id, IPC_SET, &ds));
    shmctl(id, IPC_STAT, &ds);
    printf("mode %o, owner %d %d, creator %d\n", ds.shm_perm.mode, ds.shm_perm.uid, ds.shm_perm.gid, ds.shm_perm.cuid);
    in_child(reader, id);
    ds.shm_perm.uid = -1;
    tell("set no user", shmctl(id, IPC_SET, &ds));
    tell("lock", shmctl(id, SHM_LOCK, 0));
    shmctl(id, IPC_STAT, &ds);
    printf("mode %o\n", ds.shm_perm.mode);
    tell("unlock", shmctl(id, SHM_UNLOCK, 0));

    struct shm_info info;
    struct shminfo limits;
    int highest = shmctl(0, SHM_INFO, (void *)&info);
    printf("info: %d segments, %lu pages, a place: %d\n", info.used_ids - before.used_ids, info.shm_tot - before.shm_tot, highest >= 0);
    printf("limits: %lu %lu %lu %lu, a place: %d\n", limits.shmmax * 0 + 0, 0ul, 0ul, 0ul, shmctl(0, IPC_INFO, (void *)&limits) == highest);
    printf("%lu %lu %lu\n", limits.shmmax, limits.shmmni, limits.shmall);
    int found = 0;
    for (int i = 0; i <= highest; i++) found += shmctl(i, SHM_STAT, &ds) == id;
    printf("found by place: %d\n", found);
    FILE *list = fopen("/proc/sysvipc/shm", "r");
    char line[300];
    while (fgets(line, sizeof line, list)) {
        int key, at, mode, size;
        if (sscanf(line, "%d %d %o %d", &key, &at, &mode, &size) == 4 && at == id) printf("in /proc: %x %o %d\n", key, mode, size);
    }

    /* Removed. */
    tell("remove", shmctl(id, IPC_RMID, 0));
    shmctl(id, IPC_STAT, &ds);
    printf("its key is %d, mode %o; a new one differs: %d\n", ds.shm_perm.__key, ds.shm_perm.mode, shmget(KEY, SIZE, IPC_CREAT | 0600) != id);
    printf("still %s, and once more: %d\n", a, (a = shmat(id, 0, 0)) != (void *)-1);
    printf("attached %d\n", attached(id));
    fflush(stdout);
    if (fork() == 0) { shmdt(a); pause(); }
    shmdt(a);
    tell("private", shmctl(private, IPC_RMID, 0) | shmctl(other, IPC_RMID, 0));
    tell("it is gone", shmctl(private, IPC_STAT, &ds));
    tell("gone twice", shmctl(private, IPC_RMID, 0));
    tell("the new one", shmctl(shmget(KEY, 0, 0), IPC_RMID, 0));
    /* A large one that is replaced by itself, or unmapped: a small one that comes later is not as long as it was. */
    enum { LARGE = 64 * 4096 };
    int kept = 0;
    for (int i = 0; i < 32; i++) {
        int large = shmget(IPC_PRIVATE, LARGE, 0600);
        char *at = shmat(large, 0, 0);
        if (i % 2) munmap(at, LARGE);
        else {
            if (shmat(large, at, SHM_REMAP | SHM_RDONLY) != at) printf("not replaced\n");
            if (attached_at_last(large, 1) != 1) printf("attached %d\n", attached(large));
            if (shmdt(at)) printf("not detached\n");
            if (shmdt(at) == 0) printf("detached twice\n");
        }
        shmctl(large, IPC_RMID, 0);
        char *place = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(place, 5, LARGE);
        int small = shmget(IPC_PRIVATE, 4096, 0600);
        if (shmat(small, place, SHM_REMAP) != place) printf("not there\n");
        shmctl(small, IPC_RMID, 0);
        if (shmdt(place)) printf("small one not detached\n");
        unsigned char there[LARGE / 4096];
        kept += mincore(place + 4096, LARGE - 4096, there) == 0;
        munmap(place, LARGE);
    }
    printf("neighbours kept: %d\n", kept);
    signal(SIGTERM, SIG_IGN);
    kill(0, SIGTERM);
    return 0;
}
