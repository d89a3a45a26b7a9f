/* The limits of POSIX message queues, as /proc/sys/fs/mqueue shows and changes them: what is refused, and what queues are made with. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const names[] = {"msg_default", "msg_max", "msgsize_default", "msgsize_max", "queues_max"};
enum { MSG_DEFAULT, MSG_MAX, MSGSIZE_DEFAULT, MSGSIZE_MAX, QUEUES_MAX, LIMITS };

static const char *path(int which) {
    static char text[64];
    snprintf(text, sizeof text, "/proc/sys/fs/mqueue/%s", names[which]);
    return text;
}

static void show(int which) {
    char text[64] = "nothing";
    FILE *file = fopen(path(which), "r");
    if (file == NULL || fgets(text, sizeof text, file) == NULL) {
        snprintf(text, sizeof text, "%s\n", strerror(errno));
    }
    printf("%s: %s", names[which], text);
    if (file != NULL) {
        fclose(file);
    }
}

static void set(int which, const char *text) {
    int file = open(path(which), O_WRONLY);
    ssize_t written = file < 0 ? -1 : write(file, text, strlen(text));
    printf("%s to \"%s\": %s\n", names[which], text, written < 0 ? strerror(errno) : "yes");
    if (file >= 0) {
        close(file);
    }
}

static void make(const char *who, long most, long size) {
    struct mq_attr wanted = {.mq_maxmsg = most, .mq_msgsize = size}, is;
    mqd_t queue = mq_open("/limited", O_CREAT | O_EXCL | O_RDWR, 0600, most ? &wanted : NULL);
    if (queue == (mqd_t)-1) {
        printf("%s, %ld of %ld: %s\n", who, most, size, strerror(errno));
        return;
    }
    mq_getattr(queue, &is);
    printf("%s, %ld of %ld: %ld of %ld\n", who, most, size, is.mq_maxmsg, is.mq_msgsize);
    mq_close(queue);
    mq_unlink("/limited");
}

/* As an ordinary user. */
static void as_user(void (*act)(void)) {
    fflush(stdout);
    if (fork() == 0) {
        if (setgid(1000) || setuid(1000)) {
            exit(1);
        }
        act();
        exit(0);
    }
    wait(NULL);
}

static void makes(void) {
    make("user", 0, 0);
    make("user", 4, 300);
    make("user", 5, 300);
    make("user", 4, 301);
}

static void one_too_many(void) {
    mqd_t first = mq_open("/first", O_CREAT | O_RDWR, 0600, NULL);
    printf("first: %s\n", first == (mqd_t)-1 ? strerror(errno) : "yes");
    mqd_t second = mq_open("/second", O_CREAT | O_RDWR, 0600, NULL);
    printf("second: %s\n", second == (mqd_t)-1 ? strerror(errno) : "yes");
    mq_close(first), mq_close(second);
    mq_unlink("/first"), mq_unlink("/second");
}

static void writes(void) {
    set(MSG_MAX, "100");
}

int main(void) {
    struct stat is;
    for (int i = 0; i < LIMITS; i++) {
        show(i);
        printf("mode: %o\n", stat(path(i), &is) ? 0 : is.st_mode);
    }
    set(MSG_DEFAULT, "3\n"), set(MSGSIZE_DEFAULT, "200");
    show(MSG_DEFAULT);
    make("root", 0, 0);
    set(MSG_MAX, "4"), set(MSGSIZE_MAX, "300");
    make("root", 5, 301);
    as_user(makes);
    set(MSG_DEFAULT, "7"), set(MSGSIZE_DEFAULT, "1000");
    make("root", 0, 0);
    as_user(makes);
    set(MSG_MAX, "0"), set(MSG_MAX, "65536"), set(MSG_MAX, "65537"), set(MSG_MAX, "-1"), set(MSG_MAX, "x"), set(MSG_MAX, "12");
    show(MSG_MAX);
    set(MSGSIZE_MAX, "127"), set(MSGSIZE_MAX, "128"), set(MSGSIZE_MAX, "16777216"), set(MSGSIZE_MAX, "16777217");
    set(MSG_DEFAULT, "0"), set(MSG_DEFAULT, "65537"), set(MSGSIZE_DEFAULT, "127"), set(MSGSIZE_DEFAULT, "16777217");
    set(QUEUES_MAX, "1");
    one_too_many();
    as_user(one_too_many);
    as_user(writes);
    set(QUEUES_MAX, "256"), set(MSG_MAX, "10"), set(MSGSIZE_MAX, "8192"), set(MSG_DEFAULT, "10"), set(MSGSIZE_DEFAULT, "8192");
    for (int i = 0; i < LIMITS; i++) {
        show(i);
    }
    return 0;
}
