/* sem_open: a name in /dev/shm is made by link(2) within it; two processes use the semaphore. And the same folder under its other names. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *what, int result) {
    printf("%s: %s\n", what, result ? strerror(errno) : "done");
}

int main(void) {
    /* (Linux's machine of the tests has no such folder.) */
    if (mkdir("/dev/shm", 0) == 0) chmod("/dev/shm", 01777);
    if (setuid(1000)) return perror("setuid"), 1;
    static const char *const name = "/cairn-test-semaphore";
    sem_unlink(name);
    sem_t *sem = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    if (sem == SEM_FAILED) return perror("sem_open"), 1;
    tell("a second of that name", sem_open(name, O_CREAT | O_EXCL, 0600, 0) == SEM_FAILED);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        sem_t *same = sem_open(name, 0);
        return same == SEM_FAILED || sem_post(same) ? 1 : 0;
    }
    int status, value;
    sem_wait(sem);
    waitpid(pid, &status, 0);
    sem_getvalue(sem, &value);
    printf("waited for a child (%d), %d left\n", status, value);
    tell("unlink", sem_unlink(name));
    tell("open what is gone", sem_open(name, 0) == SEM_FAILED);

    int folder = open("/dev/shm", O_PATH | O_DIRECTORY), file = open("/dev/shm/cairn-one", O_CREAT | O_RDWR, 0600);
    if (folder < 0 || file < 0) return perror("/dev/shm"), 1;
    tell("link below a handle", linkat(AT_FDCWD, "/dev/shm/cairn-one", folder, "cairn-two", 0));
    tell("link to a handle's", linkat(folder, "cairn-two", AT_FDCWD, "/dev/shm/cairn-three", 0));
    tell("rename", rename("/dev/shm/cairn-three", "/dev/shm/cairn-four"));
    tell("rename to what is there", rename("/dev/shm/cairn-two", "/dev/shm/cairn-four"));
    tell("link into no folder", link("/dev/shm/cairn-one", "/dev/shm/none/x"));
    tell("rename across", rename("/dev/shm/cairn-one", "/proc/cairn"));
    struct stat s;
    tell("stat", fstat(file, &s));
    printf("%d names\n", (int)s.st_nlink);
    unlinkat(folder, "cairn-two", 0), unlink("/dev/shm/cairn-four"), unlink("/dev/shm/cairn-one");
    return 0;
}
