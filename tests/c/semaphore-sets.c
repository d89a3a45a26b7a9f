/* System V semaphores: what each call says, several operations at once or not at all, who waits and is counted, what is undone when a process ends in whatever way, who may. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEY 0x5eed2

union semun { int val; struct semid_ds *buf; unsigned short *array; struct seminfo *info; };

static void tell(const char *what, long result) {
    if (result < 0) printf("%s: %s\n", what, strerror(errno));
    else printf("%s: %ld\n", what, result);
}

static int value(int id, int number) { return semctl(id, number, GETVAL); }
static int assign(int id, int number, int v) { return semctl(id, number, SETVAL, (union semun){.val = v}); }
static int op(int id, int number, int change, int flags) { return semop(id, &(struct sembuf){number, change, flags}, 1); }

static void all(int id) {
    unsigned short values[5];
    semctl(id, 0, GETALL, (union semun){.array = values});
    printf("  %d %d %d %d %d\n", values[0], values[1], values[2], values[3], values[4]);
}

static void handler(int s) { (void)s; }

static int shared_id;
static pid_t child(void (*run)(int), int argument) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) run(argument), fflush(stdout), _exit(0);
    return pid;
}
static void waiting(int number, int zero, int count) {
    for (int i = 0; i < 2000 && semctl(shared_id, number, zero ? GETZCNT : GETNCNT) != count; i++) usleep(1000);
}

static void takes(int number) { tell("took", op(shared_id, number, -1, 0)); }
static void takes_three(int number) { tell("took three", op(shared_id, number, -3, 0)); }
static void zero(int number) { tell("is zero", op(shared_id, number, 0, 0)); }
static void takes_two(int number) {
    struct sembuf list[] = {{number, -1, 0}, {number + 1, -1, 0}};
    int done = semop(shared_id, list, 2), error = errno;
    usleep(30000), errno = error, tell("took both", done);
}
static void undoes(int how) {
    op(shared_id, 0, 3, SEM_UNDO), op(shared_id, 1, -1, SEM_UNDO), op(shared_id, 2, 1, SEM_UNDO), op(shared_id, 0, -1, SEM_UNDO);
    if (how == 1) kill(getpid(), SIGKILL);
    if (how == 2) _exit(1);
    if (how == 3) execl("/bin/true", "true", (char *)0), execl("/bin/busybox", "true", (char *)0);
    if (how == 4) for (;;) pause();
}
static void stranger(int id) {
    if (setgid(1001) || setuid(1001)) return;
    struct semid_ds ds = {0};
    unsigned short values[5] = {0};
    tell("stranger: get", semget(KEY, 0, 0) >= 0 ? 0 : -1);
    tell("stranger: get to write", semget(KEY, 0, 0200));
    tell("stranger: take", op(id, 0, -1, IPC_NOWAIT));
    tell("stranger: zero", op(id, 0, 0, IPC_NOWAIT));
    tell("stranger: value", value(id, 0));
    tell("stranger: assign", assign(id, 0, 1));
    tell("stranger: all", semctl(id, 0, SETALL, (union semun){.array = values}));
    tell("stranger: stat", semctl(id, 0, IPC_STAT, (union semun){.buf = &ds}));
    tell("stranger: set", semctl(id, 0, IPC_SET, (union semun){.buf = &ds}));
    tell("stranger: remove", semctl(id, 0, IPC_RMID));
}

int main(void) {
    /* What others left is there as well. */
    struct seminfo before;
    semctl(0, 0, SEM_INFO, (union semun){.info = &before});
    struct semid_ds ds;
    union semun stat = {.buf = &ds};
    tell("get what is not there", semget(KEY, 5, 0600));
    tell("none", semget(KEY, 0, IPC_CREAT | 0600));
    tell("fewer than none", semget(KEY, -1, IPC_CREAT | 0600));
    tell("too many", semget(KEY, 32001, IPC_CREAT | 0600));
    int id = shared_id = semget(KEY, 5, IPC_CREAT | IPC_EXCL | 0640);
    tell("make again", semget(KEY, 5, IPC_CREAT | IPC_EXCL | 0600));
    tell("more than there are", semget(KEY, 6, 0));
    printf("the same: %d\n", semget(KEY, 5, 0) == id && semget(KEY, 0, 0) == id);
    semctl(id, 0, IPC_STAT, stat);
    printf("mode %o, %lu semaphores, otime %d, ctime %d\n", ds.sem_perm.mode, ds.sem_nsems, ds.sem_otime != 0, ds.sem_ctime != 0);
    all(id);

    tell("value too low", assign(id, 0, -1));
    tell("value too high", assign(id, 0, 32768));
    tell("the highest", assign(id, 0, 32767));
    tell("one more", op(id, 0, 1, 0));
    tell("no such semaphore", op(id, 5, 1, 0));
    tell("its value", value(id, 5));
    tell("assign it", assign(id, 5, 1));
    tell("assign before the first", assign(id, -1, 1));
    tell("no operations", semop(id, 0, 0));
    tell("of none", op(-1, 0, 1, 0));
    tell("from nowhere", semop(id, (void *)8, 1));
    struct sembuf many[501] = {{0}};
    tell("too many operations", semop(id, many, 501));
    tell("many", semop(id, many + 1, 0x7fffffff));
    tell("no command", semctl(id, 0, 77));
    tell("stat into nowhere", semctl(id, 0, IPC_STAT, (union semun){.buf = (void *)8}));
    tell("all into nowhere", semctl(id, 0, GETALL, (union semun){.array = (void *)8}));
    tell("all from nowhere", semctl(id, 0, SETALL, (union semun){.array = (void *)8}));
    unsigned short values[5] = {1, 2, 3, 4, 40000};
    tell("one too high", semctl(id, 0, SETALL, (union semun){.array = values}));
    all(id);
    values[4] = 0;
    tell("all", semctl(id, 0, SETALL, (union semun){.array = values}));
    all(id);
    tell("take", op(id, 1, -1, 0));
    tell("take too many", op(id, 1, -2, IPC_NOWAIT));
    tell("not zero", op(id, 1, 0, IPC_NOWAIT));
    tell("zero", op(id, 4, 0, IPC_NOWAIT));
    printf("by me: %d %d\n", semctl(id, 1, GETPID) == getpid(), semctl(id, 4, GETPID) == getpid());

    struct sembuf list[] = {{0, -1, 0}, {1, -1, 0}, {2, 5, 0}, {3, -5, IPC_NOWAIT}, {4, 1, 0}, {0, 1, 0}, {0, 1, 0}};
    tell("five, of which one cannot be", semop(id, list, 5));
    all(id);
    list[3].sem_op = -4;
    tell("five", semop(id, list, 5));
    all(id);
    list[0].sem_op = 2;
    tell("twice the same", semop(id, (struct sembuf[]){{0, 2, 0}, {0, -1, 0}, {0, -1, 0}, {0, 0, 0}}, 4));
    for (int i = 0; i < 500; i++) many[i] = (struct sembuf){i % 5, i % 2 ? -1 : 1, 0};
    values[0] = values[1] = values[2] = values[3] = values[4] = 100;
    semctl(id, 0, SETALL, (union semun){.array = values});
    tell("five hundred", semop(id, many, 500));
    all(id);

    /* Waiting. */
    memset(values, 0, sizeof values);
    semctl(id, 0, SETALL, (union semun){.array = values});
    pid_t first = child(takes, 0);
    waiting(0, 0, 1);
    printf("waits for more: %d, for zero: %d\n", semctl(id, 0, GETNCNT), semctl(id, 0, GETZCNT));
    op(id, 0, 1, 0);
    waitpid(first, 0, 0);
    assign(id, 1, 1);
    first = child(zero, 1);
    waiting(1, 1, 1);
    printf("waits for more: %d, for zero: %d\n", semctl(id, 1, GETNCNT), semctl(id, 1, GETZCNT));
    op(id, 1, -1, 0);
    waitpid(first, 0, 0);
    first = child(takes_three, 0);
    waiting(0, 0, 1);
    pid_t second = child(takes, 0);
    waiting(0, 0, 2);
    op(id, 0, 2, 0);
    waitpid(second, 0, 0);
    printf("who needs less goes on: %d left, %d waits\n", value(id, 0), semctl(id, 0, GETNCNT));
    assign(id, 0, 3);
    waitpid(first, 0, 0);
    first = child(takes_two, 2);
    waiting(2, 0, 1);
    printf("waits for two: %d %d\n", semctl(id, 2, GETNCNT), semctl(id, 3, GETNCNT));
    op(id, 2, 1, 0);
    waiting(3, 0, 1);
    printf("for the second: %d %d, nothing is taken: %d\n", semctl(id, 2, GETNCNT), semctl(id, 3, GETNCNT), value(id, 2));
    op(id, 3, 1, 0);
    waitpid(first, 0, 0);
    all(id);
    first = child(takes, 0);
    waiting(0, 0, 1);
    kill(first, SIGKILL), waitpid(first, 0, 0);
    waiting(0, 0, 0);
    op(id, 0, 1, 0);
    printf("who is gone takes nothing: %d\n", value(id, 0));
    assign(id, 0, 0);

    struct timespec brief = {0, 20000000}, bad = {0, 1000000000}, none = {0, 0};
    tell("for some time", semtimedop(id, &(struct sembuf){0, -1, 0}, 1, &brief));
    tell("for no time", semtimedop(id, &(struct sembuf){0, -1, 0}, 1, &none));
    tell("for an odd time", semtimedop(id, &(struct sembuf){0, -1, 0}, 1, &bad));
    tell("until nowhere", semtimedop(id, &(struct sembuf){0, 1, 0}, 1, (void *)8));
    tell("in time", semtimedop(id, &(struct sembuf){0, 1, 0}, 1, &brief));
    printf("nobody waits: %d\n", semctl(id, 1, GETNCNT));
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 20000}}, 0);
    tell("interrupted", op(id, 1, -1, 0));

    /* Undone. */
    for (int how = 0; how < 5; how++) {
        for (int i = 0; i < 5; i++) values[i] = 10;
        semctl(id, 0, SETALL, (union semun){.array = values});
        first = child(undoes, how);
        if (how == 4) {
            for (int i = 0; i < 2000 && value(id, 0) != 12; i++) usleep(1000);
            printf("before:"), all(id);
            assign(id, 1, 20);
            kill(first, SIGTERM);
        }
        waitpid(first, 0, 0);
        for (int i = 0; i < 2000 && value(id, 0) != 10; i++) usleep(1000);
        printf("undone %d:", how), all(id);
    }
    assign(id, 0, 32767);
    tell("undo too much", op(id, 1, 32767 - 20, SEM_UNDO));
    tell("more", op(id, 1, -32767, SEM_UNDO));
    assign(id, 1, 0);

    waitpid(child(stranger, id), 0, 0);
    semctl(id, 0, IPC_STAT, stat);
    ds.sem_perm.mode = 0604, ds.sem_perm.uid = 1000;
    tell("set", semctl(id, 0, IPC_SET, stat));
    semctl(id, 0, IPC_STAT, stat);
    printf("mode %o owner %d, otime %d\n", ds.sem_perm.mode, ds.sem_perm.uid, ds.sem_otime != 0);
    waitpid(child(stranger, id), 0, 0);
    struct seminfo info;
    union semun about = {.info = &info};
    int highest = semctl(0, 0, SEM_INFO, about);
    printf("info: %d %d, a place %d\n", info.semusz - before.semusz, info.semaem - before.semaem, highest >= 0);
    semctl(0, 0, IPC_INFO, about);
    printf("limits: %d %d %d %d %d %d %d %d\n", info.semmni, info.semmns, info.semmsl, info.semopm, info.semume, info.semvmx, info.semaem, info.semusz);
    int found = 0;
    for (int i = 0; i <= highest; i++) found += semctl(i, 0, SEM_STAT, stat) == id;
    printf("found by place: %d\n", found);
    first = child(takes, 2), second = child(takes_two, 2);
    waiting(2, 0, 2);
    tell("remove", semctl(id, 0, IPC_RMID));
    waitpid(first, 0, 0), waitpid(second, 0, 0);
    tell("of what is gone", op(id, 0, 1, 0));
    tell("its value", value(id, 0));
    return 0;
}
