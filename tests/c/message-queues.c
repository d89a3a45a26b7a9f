/* System V messages: what each call says, what is received in which order, who waits and for how long, who may. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY 0x5eed1
#ifndef MSG_COPY
#define MSG_COPY 040000
#endif

static struct { long type; char text[20000]; } m;

static void tell(const char *what, long result) {
    if (result < 0) printf("%s: %s\n", what, strerror(errno));
    else printf("%s: %ld\n", what, result);
}

static int put(int id, long type, const char *text, int flags) {
    m.type = type;
    strcpy(m.text, text);
    return msgsnd(id, &m, strlen(text) + 1, flags);
}

static void take(const char *what, int id, size_t room, long type, int flags) {
    memset(&m, 0, sizeof m);
    long got = msgrcv(id, &m, room, type, flags);
    if (got < 0) printf("%s: %s\n", what, strerror(errno));
    else printf("%s: %ld %ld %.*s\n", what, got, m.type, (int)(got > 40 ? 40 : got), m.text);
}

static void handler(int s) { (void)s; }

static pid_t child(int id, void (*run)(int)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) run(id), fflush(stdout), _exit(0);
    return pid;
}

/* It has come to wait. */
static void settle(void) { usleep(30000); }

static void receives(int id) { take("waited", id, 100, 0, 0); }
static void receives_later(int id) {
    long got = msgrcv(id, &m, 100, 0, 0);
    usleep(30000), printf("waited behind: %ld %s\n", got, m.text);
}
static void receives_seven(int id) { take("waited for 7", id, 100, 7, 0); }
static void receives_little(int id) { take("waited with little room", id, 3, 0, 0); }
static void receives_low(int id) { take("waited for up to 5", id, 100, -5, 0); }
static void receives_other(int id) { take("waited for all but 2", id, 100, 2, MSG_EXCEPT); }
static void sends(int id) { tell("waited to send", put(id, 1, "late", 0)); }
static void stranger(int id) {
    struct msqid_ds ds = {0};
    if (setgid(1001) || setuid(1001)) return;
    tell("stranger: get", msgget(KEY, 0) >= 0 ? 0 : -1);
    tell("stranger: get to read", msgget(KEY, 0400));
    tell("stranger: send", put(id, 1, "x", 0));
    take("stranger: receive", id, 100, 0, IPC_NOWAIT);
    tell("stranger: stat", msgctl(id, IPC_STAT, &ds));
    tell("stranger: set", msgctl(id, IPC_SET, &ds));
    tell("stranger: remove", msgctl(id, IPC_RMID, 0));
}
static void owner(int id) {
    struct msqid_ds ds;
    if (setgid(1000) || setuid(1000)) return;
    tell("owner: stat", msgctl(id, IPC_STAT, &ds));
    ds.msg_qbytes = 100000;
    tell("owner: larger", msgctl(id, IPC_SET, &ds));
    ds.msg_qbytes = 100;
    tell("owner: smaller", msgctl(id, IPC_SET, &ds));
}

int main(void) {
    /* What others left is there as well. */
    struct msginfo before;
    msgctl(0, MSG_INFO, (void *)&before);
    struct msqid_ds ds;
    tell("get what is not there", msgget(KEY, 0600));
    int id = msgget(KEY, IPC_CREAT | IPC_EXCL | 0640);
    tell("make again", msgget(KEY, IPC_CREAT | IPC_EXCL | 0600));
    printf("the same: %d\n", msgget(KEY, 0) == id);
    msgctl(id, IPC_STAT, &ds);
    printf("mode %o key %x, %lu of %lu bytes, %lu messages, times %d %d %d, by %d %d\n", ds.msg_perm.mode, ds.msg_perm.__key, ds.__msg_cbytes, ds.msg_qbytes, ds.msg_qnum,
           ds.msg_stime != 0, ds.msg_rtime != 0, ds.msg_ctime != 0, ds.msg_lspid, ds.msg_lrpid);

    tell("type 0", put(id, 0, "x", 0));
    tell("type -1", put(id, -1, "x", 0));
    tell("too long", msgsnd(id, &m, 8193, 0));
    tell("a negative length", msgsnd(id, &m, -1, 0));
    tell("from nowhere", msgsnd(id, (void *)8, 1, 0));
    m.type = 1;
    tell("to none", msgsnd(-1, &m, 1, 0));
    take("from none", -1, 100, 0, 0);
    take("a negative room", id, -1, 0, 0);
    take("nothing there", id, 100, 0, IPC_NOWAIT);
    take("nothing of a type", id, 100, 5, IPC_NOWAIT);
    tell("no command", msgctl(id, 99, &ds));
    tell("stat into nowhere", msgctl(id, IPC_STAT, (void *)8));

    for (long i = 1; i <= 9; i++) {
        char text[20];
        sprintf(text, "%ld and text", i);
        tell("send", put(id, (i * 4) % 9 + 1, text, 0));
    }
    msgctl(id, IPC_STAT, &ds);
    printf("%lu bytes, %lu messages, by me: %d\n", ds.__msg_cbytes, ds.msg_qnum, ds.msg_lspid == getpid());
    take("copy of the third", id, 100, 2, MSG_COPY | IPC_NOWAIT);
    take("copy of the tenth", id, 100, 9, MSG_COPY | IPC_NOWAIT);
    take("copy that waits", id, 100, 2, MSG_COPY);
    take("copy of another", id, 100, 2, MSG_COPY | IPC_NOWAIT | MSG_EXCEPT);
    take("any", id, 100, 0, 0);
    take("type 4", id, 100, 4, 0);
    take("up to 4", id, 100, -4, 0);
    take("up to most", id, 100, LONG_MIN, 0);
    take("but the first", id, 100, 9, MSG_EXCEPT);
    take("too little room", id, 3, 0, 0);
    take("cut", id, 3, 0, MSG_NOERROR);
    take("into nowhere at all", id, 100, 77, IPC_NOWAIT | MSG_NOERROR);
    while (msgrcv(id, &m, sizeof m.text, 0, IPC_NOWAIT) > 0) printf("%ld %s\n", m.type, m.text);

    /* Long ones. */
    m.type = 3;
    for (int i = 0; i < 8192; i++) m.text[i] = 'a' + i % 23;
    tell("as long as can be", msgsnd(id, &m, 8192, 0));
    tell("another", msgsnd(id, &m, 8192, 0));
    tell("no room", put(id, 1, "x", IPC_NOWAIT));
    tell("no room for nothing", msgsnd(id, &m, 0, IPC_NOWAIT));
    take("little room", id, 8191, 0, 0);
    take("all of it", id, 8192, 0, 0);
    int wrong = 0;
    for (int i = 0; i < 8192; i++) wrong += m.text[i] != 'a' + i % 23;
    printf("wrong bytes: %d\n", wrong);
    pid_t pid = child(id, sends);
    waitpid(pid, 0, 0);
    take("long", id, sizeof m.text, 3, 0);
    take("nothing", id, 10, 0, 0), take("short", id, 10, 0, 0);
    tell("nothing at all", msgsnd(id, &m, 0, 0));
    take("of it", id, 0, 0, 0);

    /* Waiting. */
    pid = child(id, receives), settle();
    put(id, 2, "for who waits", 0), waitpid(pid, 0, 0);
    pid = child(id, receives_seven), settle();
    put(id, 2, "not this", 0), put(id, 7, "this", 0), waitpid(pid, 0, 0);
    take("left", id, 100, 0, IPC_NOWAIT);
    pid = child(id, receives_low), settle();
    put(id, 6, "not this", 0), put(id, 5, "this", 0), waitpid(pid, 0, 0);
    take("left", id, 100, 0, IPC_NOWAIT);
    pid = child(id, receives_other), settle();
    put(id, 2, "not this", 0), put(id, 1, "this", 0), waitpid(pid, 0, 0);
    take("left", id, 100, 0, IPC_NOWAIT);
    pid = child(id, receives_little), settle();
    pid_t next = child(id, receives_later);
    settle(), put(id, 1, "more than that", 0);
    waitpid(pid, 0, 0), waitpid(next, 0, 0);
    msgctl(id, IPC_STAT, &ds);
    ds.msg_qbytes = 5;
    tell("small", msgctl(id, IPC_SET, &ds));
    tell("it fits", put(id, 1, "1234", IPC_NOWAIT));
    pid = child(id, sends), settle();
    take("room again", id, 100, 0, 0);
    waitpid(pid, 0, 0);
    take("then", id, 100, 0, 0);
    put(id, 1, "1234", IPC_NOWAIT);
    pid = child(id, sends), settle();
    ds.msg_qbytes = 16384;
    msgctl(id, IPC_SET, &ds);
    waitpid(pid, 0, 0);
    take("both", id, 100, 0, 0), take("both", id, 100, 0, 0);

    /* Signals and ends. */
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval soon = {.it_value = {0, 20000}};
    setitimer(ITIMER_REAL, &soon, 0);
    take("interrupted", id, 100, 0, 0);
    pid = child(id, receives), settle();
    kill(pid, SIGKILL), waitpid(pid, 0, 0);
    tell("nobody waits", put(id, 1, "kept", 0));
    take("it is there", id, 100, 0, IPC_NOWAIT);

    /* Who may. */
    waitpid(child(id, stranger), 0, 0);
    msgctl(id, IPC_STAT, &ds);
    ds.msg_perm.uid = 1000, ds.msg_perm.gid = 1000, ds.msg_perm.mode = 0600;
    tell("given away", msgctl(id, IPC_SET, &ds));
    waitpid(child(id, owner), 0, 0);
    msgctl(id, IPC_STAT, &ds);
    printf("mode %o owner %d most %lu\n", ds.msg_perm.mode, ds.msg_perm.uid, ds.msg_qbytes);

    struct msginfo info;
    int highest = msgctl(0, MSG_INFO, (void *)&info);
    printf("info: %d %d %d, a place %d\n", info.msgpool - before.msgpool, info.msgmap - before.msgmap, info.msgtql - before.msgtql, highest >= 0);
    printf("limits: %d ", msgctl(0, IPC_INFO, (void *)&info) == highest);
    printf("%d %d %d %d %d %d %d\n", info.msgmax, info.msgmnb, info.msgmni, info.msgssz, info.msgtql, info.msgseg, info.msgmap);
    int found = 0;
    for (int i = 0; i <= highest; i++) found += msgctl(i, MSG_STAT, &ds) == id;
    printf("found by place: %d\n", found);

    pid = child(id, receives), settle();
    tell("remove", msgctl(id, IPC_RMID, 0));
    waitpid(pid, 0, 0);
    tell("send to what is gone", put(id, 1, "x", 0));
    take("receive of it", id, 100, 0, 0);
    tell("remove it", msgctl(id, IPC_RMID, 0));
    int new = msgget(KEY, IPC_CREAT | 0600);
    printf("a new one has another number: %d\n", new != id);
    msgctl(new, IPC_RMID, 0);
    return 0;
}
