/* /proc/sys/kernel/{msg,sem,shm}_next_id: the identifier that the next queue, set or segment gets. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

static const char *names[] = {"msg", "sem", "shm"};

static int make(int kind) {
    switch (kind) {
    case 0: return msgget(IPC_PRIVATE, 0600 | IPC_CREAT);
    case 1: return semget(IPC_PRIVATE, 1, 0600 | IPC_CREAT);
    default: return shmget(IPC_PRIVATE, 4096, 0600 | IPC_CREAT);
    }
}

static void end(int kind, int id) {
    switch (kind) {
    case 0: msgctl(id, IPC_RMID, NULL); break;
    case 1: semctl(id, 0, IPC_RMID); break;
    default: shmctl(id, IPC_RMID, NULL);
    }
}

static void show(const char *path) {
    char text[32] = "";
    int file = open(path, O_RDONLY);
    if (file < 0 || read(file, text, sizeof text - 1) < 0) printf("%s\n", strerror(errno));
    printf("%s: %s", path, text);
    close(file);
}

static void put(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    int result = file < 0 ? -1 : (int)write(file, text, strlen(text));
    printf("%s to %s: %s\n", text, path, result < 0 ? strerror(errno) : "done");
    if (file >= 0) close(file);
}

int main(void) {
    for (int kind = 0; kind < 3; kind++) {
        char path[64], text[32];
        snprintf(path, sizeof path, "/proc/sys/kernel/%s_next_id", names[kind]);
        show(path);
        int id = make(kind);
        end(kind, id);
        snprintf(text, sizeof text, "%d", id);
        int file = open(path, O_WRONLY);
        if (file < 0 || write(file, text, strlen(text)) < 0) printf("%s\n", strerror(errno));
        close(file);
        int again = make(kind);
        printf("as wished: %d\n", id == again);
        show(path);
        put(path, "-1");
        put(path, "2147483648");
        put(path, "x");
        int other = make(kind);
        printf("another one: %d\n", other >= 0 && other != again);
        /* One that is used. */
        file = open(path, O_WRONLY);
        if (file < 0 || write(file, text, strlen(text)) < 0) printf("%s\n", strerror(errno));
        close(file);
        int third = make(kind);
        printf("of the same sequence: %d, another place: %d\n", third >> 15 == again >> 15, third != again);
        end(kind, again);
        end(kind, other);
        end(kind, third);
    }
    if (setresuid(1000, 1000, 1000)) return 1;
    show("/proc/sys/kernel/msg_next_id");
    put("/proc/sys/kernel/msg_next_id", "1");
    return 0;
}
