/* Ids that a program with threads sets: the C library has each thread make the call, and all must be told the same. All threads have the new ids afterwards. */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 5 };
static pthread_barrier_t before, after;
static int over, changed;
static uid_t users[3];
static gid_t groups[3];

static void *look(void *unused) {
    for (;;) {
        pthread_barrier_wait(&before);
        if (over) {
            return unused;
        }
        uid_t u[3];
        gid_t g[3];
        getresuid(&u[0], &u[1], &u[2]);
        getresgid(&g[0], &g[1], &g[2]);
        if (memcmp(u, users, sizeof u) != 0 || memcmp(g, groups, sizeof g) != 0 || u[1] != geteuid() || g[1] != getegid()) {
            __sync_fetch_and_add(&changed, 1);
        }
        pthread_barrier_wait(&after);
    }
}

static void show(const char *what, int result) {
    int error = errno;
    getresuid(&users[0], &users[1], &users[2]);
    getresgid(&groups[0], &groups[1], &groups[2]);
    changed = 0;
    pthread_barrier_wait(&before);
    pthread_barrier_wait(&after);
    printf("  %s: %s; %u %u %u, %u %u %u; %d others differ\n", what, result ? strerror(error) : "yes", users[0], users[1], users[2], groups[0], groups[1], groups[2], changed);
}
#define SHOW(call) show(#call, call)

static void with_threads(void (*act)(void), const char *what) {
    printf("%s:\n", what);
    fflush(stdout);
    if (fork() == 0) {
        pthread_t threads[THREADS];
        pthread_barrier_init(&before, NULL, THREADS + 1);
        pthread_barrier_init(&after, NULL, THREADS + 1);
        for (int i = 0; i < THREADS; i++) {
            pthread_create(&threads[i], NULL, look, NULL);
        }
        act();
        over = 1;
        pthread_barrier_wait(&before);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
        exit(0);
    }
    int status;
    wait(&status);
    if (status != 0) {
        printf("  ended with %x\n", status);
    }
}

static void gives_up(void) {
    gid_t list[] = {7, 8};
    SHOW(setgroups(2, list));
    SHOW(setresgid(1001, 1002, 1003));
    SHOW(setgid(1004));
    SHOW(setuid(1000));
    SHOW(setuid(0));
    SHOW(setresuid(0, 0, 0));
    SHOW(setgroups(0, NULL));
    SHOW(setgid(0));
}

static void turns_back(void) {
    SHOW(setresuid(1000, 1001, 0));
    SHOW(setresuid(-1, 0, -1));
    SHOW(setreuid(1000, 1001));
    SHOW(setreuid(1001, 1000));
    SHOW(setreuid(1000, 1001));
    SHOW(setreuid(0, -1));
    SHOW(seteuid(1000));
    SHOW(seteuid(1001));
    SHOW(setuid(1000));
    SHOW(setresuid(1001, 1001, 1000));
    SHOW(setresuid(1000, -1, 1001));
}

static void groups_only(void) {
    SHOW(setresgid(5, 6, 7));
    SHOW(setuid(1000));
    SHOW(setregid(6, 5));
    SHOW(setregid(5, 6));
    SHOW(setegid(5));
    SHOW(setgid(5));
    SHOW(setresgid(6, 6, 6));
    SHOW(setgid(7));
}

int main(void) {
    with_threads(gives_up, "root for good");
    with_threads(turns_back, "root and back");
    with_threads(groups_only, "groups");
    return 0;
}
