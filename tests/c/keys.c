/* Key rings (add_key, request_key, keyctl): what each call says, who may what, what possession is, times, quotas, rings in rings, and what fork, exec and
 * threads have of each other's rings. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREAD = -1, PROCESS = -2, SESSION = -3, USER = -4, USER_SESSION = -5 };
enum {
    GET_KEYRING_ID, JOIN, UPDATE, REVOKE, CHOWN, SETPERM, DESCRIBE, CLEAR, LINK, UNLINK, SEARCH, READ, INSTANTIATE, NEGATE, SET_REQKEY, SET_TIMEOUT, ASSUME,
    GET_SECURITY, TO_PARENT, REJECT, INSTANTIATE_IOV, INVALIDATE, GET_PERSISTENT, RESTRICT = 29, MOVE, CAPABILITIES,
};

static long add(const char *type, const char *name, const void *text, size_t length, long ring) { return syscall(SYS_add_key, type, name, text, length, ring); }
static long user(const char *name, const char *text, long ring) { return add("user", name, text, strlen(text), ring); }
static long ring_in(const char *name, long ring) { return add("keyring", name, NULL, 0, ring); }
static long request(const char *type, const char *name, long ring) { return syscall(SYS_request_key, type, name, NULL, ring); }
#define ctl(...) CTL(__VA_ARGS__, 0, 0, 0, 0)
#define CTL(op, a, b, c, d, ...) syscall(SYS_keyctl, op, (long)(a), (long)(b), (long)(c), (long)(d))

/* An error's name, or whether there is a key's number, or a small number. */
static long tell(const char *what, long result) {
    if (result < 0) printf("%s: error %d\n", what, errno);
    else if (result > 5000) printf("%s: a key\n", what);
    else printf("%s: %ld\n", what, result);
    return result;
}

static void describe(const char *what, long key) {
    char text[5000];
    memset(text, '#', sizeof text);
    long length = ctl(DESCRIBE, key, text, sizeof text);
    if (length < 0) printf("%s: error %d\n", what, errno);
    else printf("%s: %ld %s\n", what, length, text);
}

static void text_of(const char *what, long key) {
    char text[40000] = "";
    long length = ctl(READ, key, text, sizeof text);
    if (length < 0) printf("%s: error %d\n", what, errno);
    else printf("%s: %ld %.20s\n", what, length, text);
}

static int count(long ring) {
    static int keys[20000];
    long length = ctl(READ, ring, keys, sizeof keys);
    return length < 0 ? -1 : (int)(length / 4);
}
static int has(long ring, long key) {
    static int keys[20000];
    long length = ctl(READ, ring, keys, sizeof keys);
    for (int i = 0; i < length / 4; i++)
        if (keys[i] == key) return 1;
    return 0;
}

static void become(int uid) {
    if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid)) perror("become");
}

/* Run as a user, in a session of its own. */
static void as(int uid, void (*run)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (uid) become(uid);
        ctl(JOIN, NULL);
        run();
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (status) printf("  as %d: status %x\n", uid, status);
}

static void calls(void) {
    printf("-- calls\n");
    long s = tell("session", ctl(GET_KEYRING_ID, SESSION, 0));
    describe("session", SESSION);
    long k = tell("add", user("a", "hello", SESSION));
    describe("key", k);
    text_of("text", k);
    printf("again is the same: %d\n", user("a", "other", SESSION) == k);
    text_of("text", k);
    tell("update", ctl(UPDATE, k, "third!", 6));
    text_of("text", k);
    tell("update with nothing", ctl(UPDATE, k, NULL, 0));
    tell("short read", ctl(READ, k, NULL, 0));
    char four[8] = "....";
    tell("short read", ctl(READ, k, four, 4));
    printf("%s\n", four);
    tell("short describe", ctl(DESCRIBE, k, four, 4));
    printf("%s\n", four);
    char security[8] = "xxxxxxx";
    tell("security", ctl(GET_SECURITY, k, security, 8));
    printf("%zu\n", strlen(security));
    tell("no type", add("nothing", "a", "x", 1, SESSION));
    tell("empty type", add("", "a", "x", 1, SESSION));
    tell("dotted type", add(".a", "a", "x", 1, SESSION));
    tell("long type", add("abcdefghijklmnopqrstuvwxyzabcdefgh", "a", "x", 1, SESSION));
    tell("empty name", user("", "x", SESSION));
    tell("no name", add("user", NULL, "x", 1, SESSION));
    tell("no type at all", add(NULL, "a", "x", 1, SESSION));
    tell("wrong type address", add((char *)8, "a", "x", 1, SESSION));
    tell("wrong name address", add("user", (char *)8, "x", 1, SESSION));
    tell("wrong payload address", add("user", "a", (char *)8, 1, SESSION));
    tell("no payload", add("user", "b", NULL, 0, SESSION));
    static char large[1 << 20];
    memset(large, 'l', sizeof large);
    tell("too large", add("user", "b", large, 32768, SESSION));
    tell("too large by far", add("user", "b", large, 1 << 20, SESSION));
    tell("ring with a payload", add("keyring", "r", "x", 1, SESSION));
    tell("dotted ring", add("keyring", ".r", NULL, 0, SESSION));
    tell("in no ring", user("b", "x", k));
    tell("in nothing", user("b", "x", 0));
    tell("in something else", user("b", "x", 123));
    tell("in a group's ring", user("b", "x", -6));
    tell("in a requester's ring", user("b", "x", -8));
    tell("in a ring below all", user("b", "x", -9));
    tell("logon", add("logon", "a", "x", 1, SESSION));
    long l = tell("logon", add("logon", "a:b", "x", 1, SESSION));
    describe("logon", l);
    text_of("logon", l);
    large[4095] = 'l';
    char name[4200];
    memset(name, 'n', sizeof name);
    name[4095] = 0;
    tell("longest name", user(name, "x", SESSION));
    name[4095] = 'n', name[4096] = 0;
    tell("longer name", user(name, "x", SESSION));
    printf("in the session: %d\n", count(SESSION));

    printf("-- find\n");
    printf("%d\n", request("user", "a", 0) == k);
    tell("absent", request("user", "zzz", 0));
    tell("absent type", request("keyring", "a", 0));
    tell("wrong type", request("nothing", "a", 0));
    printf("%d\n", ctl(SEARCH, SESSION, "user", "a", 0) == k);
    tell("search absent", ctl(SEARCH, SESSION, "user", "zzz", 0));
    tell("search wrong type", ctl(SEARCH, SESSION, "nothing", "a", 0));
    tell("search in no ring", ctl(SEARCH, k, "user", "a", 0));
    long r = tell("ring", ring_in("r", SESSION));
    describe("ring", r);
    printf("search and link: %d\n", ctl(SEARCH, SESSION, "user", "a", r) == k);
    printf("request and link: %d %d\n", request("logon", "a:b", r) == l, count(r));
    tell("unlink", ctl(UNLINK, k, r));
    tell("unlink again", ctl(UNLINK, k, r));
    tell("unlink from no ring", ctl(UNLINK, k, l));
    tell("link", ctl(LINK, k, r));
    tell("link again", ctl(LINK, k, r));
    tell("link into no ring", ctl(LINK, k, l));
    printf("%d\n", count(r));
    long k2 = tell("same name elsewhere", user("a", "x", r));
    printf("is the same: %d\n", k2 == k);
    tell("clear", ctl(CLEAR, r));
    printf("%d\n", count(r));
    tell("clear no ring", ctl(CLEAR, k));
    tell("move", ctl(MOVE, k, SESSION, r, 0));
    printf("%d %d\n", has(SESSION, k), has(r, k));
    tell("move again", ctl(MOVE, k, SESSION, r, 0));
    tell("move in place", ctl(MOVE, k, r, r, 0));
    user("a", "x", SESSION);
    tell("move exclusively", ctl(MOVE, k, r, SESSION, 1));
    tell("move wrongly", ctl(MOVE, k, r, SESSION, 2));
    tell("move over", ctl(MOVE, k, r, SESSION, 0));
    printf("%d %d\n", has(SESSION, k), count(r));
    tell("update ring", ctl(UPDATE, r, "x", 1));
    tell("text of ring", ctl(READ, SESSION, NULL, 0) / 4);

    printf("-- ends\n");
    tell("revoke", ctl(REVOKE, k));
    text_of("revoked", k);
    describe("revoked", k);
    tell("revoke", ctl(REVOKE, k));
    tell("update", ctl(UPDATE, k, "x", 1));
    tell("link", ctl(LINK, k, r));
    tell("timeout", ctl(SET_TIMEOUT, k, 10));
    tell("request", request("user", "a", 0));
    tell("search", ctl(SEARCH, SESSION, "user", "a", 0));
    tell("there still", has(SESSION, k));
    long k3 = tell("again", user("a", "new", SESSION));
    printf("is another: %d\n", k3 != k);
    usleep(200000);
    tell("old", ctl(READ, k, NULL, 0));
    tell("invalidate", ctl(INVALIDATE, k3));
    usleep(200000);
    text_of("invalidated", k3);
    tell("request", request("user", "a", 0));
    printf("there: %d\n", has(SESSION, k3));
    tell("revoke ring", ctl(REVOKE, r));
    tell("add", user("x", "x", r));
    tell("search", ctl(SEARCH, r, "user", "a", 0));

    printf("-- commands\n");
    tell("wrong", ctl(99, 0));
    tell("perm", ctl(SETPERM, l, 0x40000000));
    tell("perm", ctl(SETPERM, l, 0x3f3f3f3f));
    describe("perm", l);
    tell("chown nothing", ctl(CHOWN, l, -1, -1));
    tell("instantiate", ctl(INSTANTIATE, l, "x", 1, 0));
    tell("negate", ctl(NEGATE, l, 1, 0));
    tell("reject", ctl(REJECT, l, 1, 0, 0));
    tell("reject", ctl(REJECT, l, 1, EACCES, 0));
    tell("assume", ctl(ASSUME, 0));
    tell("assume", ctl(ASSUME, -1));
    tell("assume", ctl(ASSUME, l));
    tell("reqkey", ctl(SET_REQKEY, -1));
    tell("reqkey", ctl(SET_REQKEY, 4));
    tell("reqkey", ctl(SET_REQKEY, 0));
    tell("reqkey", ctl(SET_REQKEY, 6));
    tell("reqkey", ctl(SET_REQKEY, 8));
    unsigned char capabilities[8];
    memset(capabilities, 7, sizeof capabilities);
    tell("capabilities", ctl(CAPABILITIES, capabilities, 8));
    printf("%x %d\n", capabilities[0] & 0xe3, capabilities[7]);
    tell("id", ctl(GET_KEYRING_ID, 0, 0));
    tell("id", ctl(GET_KEYRING_ID, -6, 0));
    tell("id", ctl(GET_KEYRING_ID, -7, 0));
    tell("id", ctl(GET_KEYRING_ID, -8, 1));
    tell("id", ctl(GET_KEYRING_ID, THREAD, 0));
    tell("id", ctl(GET_KEYRING_ID, PROCESS, 0));
    printf("%d\n", ctl(GET_KEYRING_ID, s, 0) == s);
    long q = ring_in("restricted", SESSION);
    tell("restrict", ctl(RESTRICT, q, "user", NULL));
    tell("restrict", ctl(RESTRICT, q, NULL, "x"));
    tell("restrict", ctl(RESTRICT, q, "user", "x"));
    tell("restrict", ctl(RESTRICT, q, "nothing", "x"));
    tell("restrict", ctl(RESTRICT, l, NULL, NULL));
    tell("add", user("a", "x", q));
    tell("restrict", ctl(RESTRICT, q, NULL, NULL));
    tell("restrict", ctl(RESTRICT, q, NULL, NULL));
    tell("add", user("b", "x", q));
    tell("add again", user("a", "x", q));
    tell("link", ctl(LINK, l, q));
    tell("unlink", ctl(UNLINK, request("user", "a", 0), q));
    tell("clear", ctl(CLEAR, q));
}

static void times(void) {
    printf("-- times\n");
    long k = user("t", "x", SESSION), ring = ring_in("timed", SESSION), other = user("o", "x", ring);
    tell("timeout", ctl(SET_TIMEOUT, k, 1));
    tell("timeout", ctl(SET_TIMEOUT, ring, 1));
    text_of("not yet", k);
    usleep(2100000);
    text_of("expired", k);
    tell("request", request("user", "t", 0));
    tell("search", ctl(SEARCH, SESSION, "user", "t", 0));
    tell("update", ctl(UPDATE, k, "x", 1));
    tell("link", ctl(LINK, k, SESSION));
    tell("add in expired", user("n", "x", ring));
    tell("in an expired ring", request("user", "o", 0) == other);
    describe("expired", k);
    tell("there", has(SESSION, k));
    printf("again is the same: %d\n", user("t", "y", SESSION) == k);
    text_of("text", k);
    tell("no timeout", ctl(SET_TIMEOUT, ring, 0));
    tell("add", user("n", "x", ring));
    tell("timeout", ctl(SET_TIMEOUT, k, 1));
    tell("update", ctl(UPDATE, k, "z", 1));
    usleep(2100000);
    text_of("after an update", k);
}

static void nested(void) {
    printf("-- rings in rings\n");
    long r[10], at = SESSION;
    char name[8];
    for (int i = 0; i < 10; i++) {
        sprintf(name, "r%d", i);
        at = r[i] = ring_in(name, at);
        sprintf(name, "k%d", i);
        user(name, "x", at);
    }
    for (int i = 0; i < 10; i++) {
        sprintf(name, "k%d", i);
        printf("%s: %d %d\n", name, request("user", name, 0) > 0, ctl(SEARCH, r[2], "user", name, 0) > 0);
    }
    for (int i = 0; i < 10; i++) printf("%ld possessed: %d\n", (long)i, ctl(SETPERM, r[i], 0x3f010000) == 0);
    tell("itself", ctl(LINK, r[0], r[0]));
    for (int i = 1; i < 10; i++) tell("above into below", ctl(LINK, r[0], r[i]));
    tell("the session", ctl(LINK, SESSION, r[0]));
    long other = ring_in("other", SESSION);
    for (int i = 0; i < 10; i++) tell("into another", ctl(LINK, r[i], other));
    printf("%d\n", count(other));
    tell("move", ctl(MOVE, other, SESSION, r[0], 0));
    tell("move back", ctl(MOVE, r[0], SESSION, other, 0));
    tell("clear", ctl(CLEAR, SESSION));
    usleep(100000);
    tell("gone", ctl(READ, r[0], NULL, 0));
}

static void own_rings(void) {
    printf("-- own rings\n");
    describe("user", USER);
    describe("user's session", USER_SESSION);
    printf("%d\n", has(USER_SESSION, ctl(GET_KEYRING_ID, USER, 0)));
    tell("process", ctl(GET_KEYRING_ID, PROCESS, 0));
    tell("process", ctl(GET_KEYRING_ID, PROCESS, 1));
    describe("process", PROCESS);
    tell("thread", ctl(GET_KEYRING_ID, THREAD, 1));
    describe("thread", THREAD);
    long k = user("p", "x", PROCESS);
    printf("%d\n", request("user", "p", 0) == k);
    tell("persistent", ctl(GET_PERSISTENT, -1, SESSION));
    long p = ctl(GET_PERSISTENT, getuid(), SESSION);
    describe("persistent", p);
    tell("another's", ctl(GET_PERSISTENT, 4321, SESSION));
    tell("perm of user's", ctl(SETPERM, USER, 0x3f3f0000));
    // (It stays when the program ends.)
    tell("and back", ctl(SETPERM, USER, 0x1f3f0000));
    long named = tell("named", ctl(JOIN, "some name"));
    describe("named", SESSION);
    tell("dotted", ctl(JOIN, ".name"));
    tell("empty", ctl(JOIN, "") > 0 ? 1 : -1);
    fflush(stdout);
    ctl(JOIN, "some name");
    ctl(SETPERM, SESSION, 0x3f3f0000);
    named = ctl(GET_KEYRING_ID, SESSION, 0);
    if (fork() == 0) {
        printf("another: %d\n", ctl(JOIN, NULL) != named);
        printf("the same: %d\n", ctl(JOIN, "some name") == named);
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

/* The session of a program that has just begun. */
static void fresh(void) {
    printf("-- without a session\n");
    describe("session", SESSION);
}

static long shared_key;
static void *in_thread(void *mine) {
    printf("of another thread: %d\n", ctl(GET_KEYRING_ID, THREAD, 0) > 0);
    printf("of the process: %d\n", ctl(GET_KEYRING_ID, PROCESS, 0) == *(long *)mine);
    long own = ctl(GET_KEYRING_ID, THREAD, 1);
    printf("%d\n", own > 0);
    shared_key = user("threads", "x", THREAD);
    printf("%d\n", request("user", "threads", 0) == shared_key);
    printf("the main thread's: %ld\n", request("user", "main's", 0));
    ctl(SETPERM, shared_key, 0x3f3f0000);
    return NULL;
}

static void inherited(void) {
    printf("-- fork, exec, threads\n");
    long session = ctl(GET_KEYRING_ID, SESSION, 0), process = ctl(GET_KEYRING_ID, PROCESS, 1);
    long k = user("in session", "x", SESSION);
    user("in process", "x", PROCESS);
    user("main's", "x", THREAD);
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, &process);
    pthread_join(thread, NULL);
    usleep(200000);
    printf("the thread's afterwards: ");
    text_of("", shared_key);
    printf("found: %ld\n", request("user", "threads", 0));
    int pipes[2], up[2];
    if (pipe(pipes) || pipe(up)) return;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        printf("child: %d %ld %ld %ld\n", request("user", "in session", 0) == k, request("user", "in process", 0), request("user", "main's", 0),
            ctl(GET_KEYRING_ID, PROCESS, 0));
        printf("same session: %d\n", ctl(GET_KEYRING_ID, SESSION, 0) == session);
        long own = user("child's", "x", PROCESS), *told = &own;
        ctl(SETPERM, own, 0x3f3f0000);
        user("of child", "x", SESSION);
        ctl(JOIN, NULL);
        printf("another session: %d\n", ctl(GET_KEYRING_ID, SESSION, 0) != session);
        printf("not here: %ld\n", request("user", "in session", 0));
        fflush(stdout);
        write(up[1], told, sizeof own);
        char c;
        read(pipes[0], &c, 1);
        for (;;) pause();
    }
    long of_child = 0;
    read(up[0], &of_child, sizeof of_child);
    text_of("child's process key", of_child);
    printf("from child: %d\n", request("user", "of child", 0) > 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    usleep(200000);
    text_of("after its end", of_child);
    fflush(stdout);
    char number[4][24];
    sprintf(number[0], "%ld", session);
    long mine = user("mine", "x", PROCESS);
    ctl(SETPERM, mine, 0x3f3f0000);
    sprintf(number[1], "%ld", mine);
    pid = fork();
    if (pid == 0) {
        mine = user("mine", "x", PROCESS);
        ctl(SETPERM, mine, 0x3f3f0000);
        sprintf(number[1], "%ld", mine);
        execl("/proc/self/exe", "keys", "after-exec", number[0], number[1], "first", NULL);
        perror("exec");
        _exit(1);
    }
    waitpid(pid, NULL, 0);
    text_of("still", mine);
    /* The child's session becomes the parent's. */
    long before = ctl(GET_KEYRING_ID, SESSION, 0);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        ctl(JOIN, NULL);
        user("given", "x", SESSION);
        tell("to parent", ctl(TO_PARENT));
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    getppid();
    printf("%d %d\n", ctl(GET_KEYRING_ID, SESSION, 0) != before, request("user", "given", 0) > 0);
}

static int after_exec(char **argv) {
    long session = atol(argv[2]), key = atol(argv[3]);
    /* (Linux keeps the credentials with which a program was executed for as long as it runs.) */
    if (!strcmp(argv[4], "first")) execl("/proc/self/exe", "keys", "after-exec", argv[2], argv[3], "second", NULL);
    printf("after exec: %d\n", ctl(GET_KEYRING_ID, SESSION, 0) == session);
    printf("%ld\n", ctl(GET_KEYRING_ID, PROCESS, 0));
    usleep(200000);
    text_of("its former key", key);
    return 0;
}

/* Each permission alone in each of the four places, and what it is good for. */
static long matrix_key, matrix_ring;
static void tried(const char *who, int owner) {
    long k = matrix_key, r = matrix_ring;
    printf("%s:", who);
    char text[100];
    printf(" d%d", ctl(DESCRIBE, k, text, 100) > 0);
    printf(" r%d", ctl(READ, k, text, 100) > 0);
    printf(" w%d", ctl(UPDATE, k, "m", 1) == 0);
    printf(" s%d", ctl(SEARCH, r, "user", "m", 0) > 0);
    printf(" S%d", ctl(GET_KEYRING_ID, k, 0) > 0);
    printf(" l%d", ctl(LINK, k, PROCESS) == 0);
    ctl(UNLINK, k, PROCESS);
    if (!owner) printf(" t%d", ctl(SET_TIMEOUT, k, 0) == 0);
    if (!owner) printf(" p%d", ctl(SETPERM, k, 0x3f3f3f3f) == 0);
    printf("\n");
}
static void matrix(void) {
    static const char *const places[] = {"others", "group", "user", "possessor"};
    for (int place = 0; place < 4; place++)
        for (int bit = 0; bit < 7; bit++) {
            int ends[2];
            if (pipe(ends)) return;
            fflush(stdout);
            pid_t owner = fork();
            if (owner == 0) {
                /* The key is in a ring that everybody may search, of user 1000 and group 77. */
                become(1000);
                ctl(JOIN, NULL);
                long r = ring_in("matrix", SESSION), k = user("m", "m", r);
                ctl(SETPERM, r, 0x3f3f3f3f);
                unsigned perm = bit == 6 ? 0 : 1u << (8 * place + bit);
                ctl(SETPERM, k, perm);
                long told[2] = {r, k};
                write(ends[1], told, sizeof told);
                printf("%s %d\n", places[place], bit);
                matrix_key = k, matrix_ring = r;
                tried("  owner", 1);
                fflush(stdout);
                pause();
            }
            long told[2];
            read(ends[0], told, sizeof told);
            usleep(20000);
            matrix_ring = told[0], matrix_key = told[1];
            fflush(stdout);
            for (int who = 0; who < 4; who++) {
                pid_t pid = fork();
                if (pid == 0) {
                    gid_t group = 1000;
                    if (who == 0) become(1001);
                    if (who == 1) {
                        if (setgroups(1, &group) || setresgid(1001, 1001, 1001) || setresuid(1001, 1001, 1001)) perror("become");
                    }
                    if (who == 2) become(1000);
                    ctl(JOIN, NULL);
                    tried(who == 0 ? "  other" : who == 1 ? "  member" : who == 2 ? "  same user" : "  root", 0);
                    fflush(stdout);
                    _exit(0);
                }
                waitpid(pid, NULL, 0);
            }
            kill(owner, SIGKILL);
            waitpid(owner, NULL, 0);
            close(ends[0]), close(ends[1]);
        }
}

static void users(void) {
    printf("-- users\n");
    long k = user("u", "x", SESSION);
    tell("give away", ctl(CHOWN, k, 1001, -1));
    tell("to a group", ctl(CHOWN, k, -1, 77));
    tell("to the own group", ctl(CHOWN, k, -1, getegid()));
    tell("to the own user", ctl(CHOWN, k, geteuid(), -1));
}
static void roots(void) {
    printf("-- root\n");
    long k = user("u", "x", SESSION);
    tell("give away", ctl(CHOWN, k, 1001, 1002));
    describe("given", k);
    tell("perm", ctl(SETPERM, k, 0x3f000000));
    describe("given", k);
    tell("persistent", ctl(GET_PERSISTENT, 1000, SESSION));
    tell("none at all", ctl(SETPERM, k, 0));
    describe("given", k);
}

static void quotas(void) {
    printf("-- quotas\n");
    char name[32];
    ctl(GET_KEYRING_ID, USER, 0);
    int made = 0;
    for (int i = 0; i < 400; i++) {
        sprintf(name, "%d", i);
        if (user(name, "x", SESSION) < 0) { tell("too many", -1); break; }
        made++;
    }
    printf("made: %d\n", made);
    tell("clear", ctl(CLEAR, SESSION));
    usleep(300000);
    static char large[20000];
    memset(large, 'l', sizeof large);
    tell("bytes", add("user", "large", large, 15000, SESSION));
    tell("bytes", add("user", "larger", large, 5000, SESSION));
    tell("bytes", ctl(UPDATE, request("user", "large", 0), large, 19990));
    tell("bytes", ctl(UPDATE, request("user", "large", 0), large, 4096));
    tell("bytes", add("user", "second", large, 14000, SESSION));
    tell("bytes", ctl(UPDATE, request("user", "second", 0), large, 10));
    tell("bytes", add("user", "second", large, 16000, SESSION));
    tell("bytes", add("user", "second", large, 14000, SESSION));
    tell("bytes", add("user", "second", large, 10, SESSION));
    tell("bytes", add("user", "larger", large, 5000, SESSION));
    ctl(CLEAR, SESSION);
    usleep(300000);
    made = 0;
    for (int i = 0; i < 3000; i++) {
        sprintf(name, "r%d", i);
        long k = add("user", name, large, 100, SESSION);
        if (k < 0) { tell("too many bytes", -1); break; }
        made++;
    }
    printf("made: %d\n", made);
    ctl(REVOKE, request("user", "r0", 0));
    tell("after a revoke", user("more", "xxxxxxxxxxxxxxxxxxxx", SESSION));
}

static int lines(const char *path, const char *wanted) {
    char line[5000];
    FILE *file = fopen(path, "r");
    int found = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (!wanted) found++;
        else if (strstr(line, wanted)) {
            /* Without the number and the count of uses. */
            if (found++ == 0) line[8] = 0, line[strlen(line + 9) + 8] = 0, printf("%.7s %s\n", line + 9, line + 23);
        }
    }
    if (file) fclose(file);
    return found;
}
static void shown(void) {
    printf("-- /proc\n");
    long k = user("to be seen", "four", SESSION);
    ctl(SET_TIMEOUT, user("timed", "x", SESSION), 7000);
    ctl(SET_TIMEOUT, user("days", "x", SESSION), 3 * 86400 + 50);
    add("logon", "for:it", "x", 1, SESSION);
    ring_in("empty one", SESSION);
    ctl(REVOKE, user("revoked one", "x", SESSION));
    static const char *const names[] = {"to be seen", "timed", "days", "for:it", "empty one", "revoked one"};
    for (int i = 0; i < 6; i++) printf("%d\n", lines("/proc/keys", names[i]));
    ctl(SETPERM, k, 0x3e3e3e3e);
    printf("%d\n", lines("/proc/keys", "to be seen"));
    static const char *const files[] = {"maxkeys", "maxbytes", "root_maxkeys", "root_maxbytes", "gc_delay", "persistent_keyring_expiry"};
    for (int i = 0; i < 6; i++) {
        char path[100], text[32] = "";
        sprintf(path, "/proc/sys/kernel/keys/%s", files[i]);
        int fd = open(path, O_RDONLY);
        if (fd >= 0) read(fd, text, 31), close(fd);
        printf("%s %s", files[i], text);
    }
    FILE *file = fopen("/proc/key-users", "r");
    char line[200];
    while (file && fgets(line, sizeof line, file)) {
        int uid, uses, keys, made, counted, most, bytes, most_bytes;
        int got = sscanf(line, "%d: %d %d/%d %d/%d %d/%d", &uid, &uses, &keys, &made, &counted, &most, &bytes, &most_bytes);
        if (uid == 1003) printf("%d %d: %d/%d %d/%d %d/%d\n", got, uid, keys, made, counted, most, bytes, most_bytes);
    }
    if (file) fclose(file);
}

static void many(void) {
    printf("-- ten thousand\n");
    char name[32];
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    int made = 0;
    for (int i = 0; i < 10000; i++) {
        sprintf(name, "key %d", i);
        made += user(name, "x", SESSION) > 0;
    }
    printf("%d %d\n", made, count(SESSION));
    int found = 0;
    for (int i = 0; i < 10000; i++) {
        sprintf(name, "key %d", i);
        found += request("user", name, 0) > 0;
    }
    printf("%d\n", found);
    printf("lines: %d\n", lines("/proc/keys", NULL) >= 10000);
    tell("clear", ctl(CLEAR, SESSION));
    printf("%d\n", count(SESSION));
    clock_gettime(CLOCK_MONOTONIC, &b);
    fprintf(stderr, "10,000 keys: %ld ms\n", (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000);
}

int main(int argc, char **argv) {
    if (argc > 4 && !strcmp(argv[1], "after-exec")) return after_exec(argv);
    as(1004, fresh);
    as(0, calls);
    as(1000, calls);
    as(1000, times);
    as(1000, nested);
    as(1000, own_rings);
    as(1000, inherited);
    as(1000, users);
    as(0, roots);
    as(1002, quotas);
    as(1003, shown);
    as(0, matrix);
    as(0, many);
    return 0;
}
