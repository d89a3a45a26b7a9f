/* As user 1000: 2,100 shared anonymous mappings, then 1,500 processes at once, twice. Nothing ends but what is told to, and the machine goes on. cairn-test: mem=768M limit=240 */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAPPINGS = 2100, CROWD = 1500, PAGE = 4096 };

static int mappings(void) {
    static char *at[MAPPINGS];
    for (int i = 0; i < MAPPINGS; i++) {
        at[i] = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (at[i] == MAP_FAILED) {
            printf("mapping %d: %s\n", i, strerror(errno));
            return 1;
        }
        *(int *)at[i] = i;
    }
    for (int i = 0; i < MAPPINGS; i++) {
        if (*(int *)at[i] != i) {
            printf("mapping %d has %d\n", i, *(int *)at[i]);
            return 1;
        }
        munmap(at[i], PAGE);
    }
    return 0;
}

static int crowd(void) {
    static pid_t all[CROWD];
    int made = 0, ended = 0;
    for (; made < CROWD; made++) {
        all[made] = fork();
        if (all[made] == 0) {
            pause();
            _exit(3);
        }
        if (all[made] < 0) {
            printf("fork %d: %s\n", made, strerror(errno));
            break;
        }
    }
    for (int i = 0; i < made; i++) {
        kill(all[i], SIGTERM);
    }
    for (int i = 0; i < made; i++) {
        int status;
        if (waitpid(all[i], &status, 0) == all[i] && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) {
            ended++;
        }
    }
    printf("%d made, %d ended by SIGTERM\n", made, ended);
    return made != CROWD || ended != CROWD;
}

int main(void) {
    setbuf(stdout, NULL);
    pid_t user = fork();
    if (user == 0) {
        if (setgroups(0, NULL) || setgid(1000) || setuid(1000)) {
            perror("setuid");
            _exit(1);
        }
        _exit(mappings() || crowd() || crowd());
    }
    int status;
    waitpid(user, &status, 0);
    printf("the user's program ended with %x\n", status);
    return status != 0;
}
