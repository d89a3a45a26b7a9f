/* The log of the system is read by who may (Debian: dmesg_restrict), and not by an ordinary user, also if he comes from root and goes back. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/wait.h>
#include <unistd.h>

static char text[4096];

static void tell(const char *who) {
    int length = klogctl(3, text, sizeof text);
    printf("%s: klogctl %s", who, length > 0 ? "reads" : length < 0 ? strerror(errno) : "nothing");
    printf(", size %s", klogctl(10, NULL, 0) > 0 ? "is told" : strerror(errno));
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
    printf(", kmsg %s\n", fd < 0 ? strerror(errno) : "opens");
    if (fd >= 0) close(fd);
    fflush(stdout);
}

int main(void) {
    tell("root");
    if (seteuid(1000)) return perror("seteuid"), 1;
    tell("for a while");
    if (seteuid(0)) return perror("seteuid"), 1;
    tell("root again");
    pid_t pid = fork();
    if (pid == 0) {
        if (setuid(1000)) return 1;
        tell("user");
        if (fork() == 0) {
            tell("his child");
            return 0;
        }
        wait(NULL);
        return 0;
    }
    wait(NULL);
    return 0;
}
