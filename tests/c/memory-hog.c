/* A program that takes all memory ends; the others go on. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    setbuf(stdout, NULL);
    pid_t bystander = fork();
    if (bystander == 0) {
        for (int i = 0; i < 20; i++) {
            usleep(10000);
        }
        _exit(5);
    }
    for (int round = 0; round < 3; round++) {
        pid_t hog = fork();
        if (hog == 0) {
            for (;;) {
                char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (p == MAP_FAILED) {
                    _exit(9);
                }
                memset(p, 1, 1 << 20);
            }
        }
        int status;
        waitpid(hog, &status, 0);
        int ended = (WIFSIGNALED(status) && (WTERMSIG(status) == 9 || WTERMSIG(status) == 7)) || (WIFEXITED(status) && WEXITSTATUS(status) == 9);
        printf("hog %d: %s\n", round, ended ? "ended" : "strange end");
    }
    int status;
    waitpid(bystander, &status, 0);
    printf("bystander: %s %d\n", WIFEXITED(status) ? "exit" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return 0;
}
