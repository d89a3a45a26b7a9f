/* A long read of /dev/urandom or zero is whole, although the server gives it in pieces. As user 1000. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LENGTH = 1 << 20 };
static unsigned char bytes[LENGTH + 7];

/* Each piece of 4 KiB has many different bytes. */
static const char *filled(size_t length) {
    for (size_t at = 0; at + 4096 <= length; at += 4096) {
        int seen[256] = {0}, different = 0;
        for (size_t i = at; i < at + 4096; i++) different += !seen[bytes[i]]++;
        if (different < 200) return "not filled";
    }
    return "filled";
}

int main(void) {
    /* Where files are short (many that others had are on their way out) an ordinary user's open may be refused; this is about reading. */
    int zero = open("/dev/zero", O_RDONLY);
    if (setuid(1000)) return perror("setuid"), 1;
    int fd = open("/dev/urandom", O_RDONLY);
    if (fd < 0) return perror("open"), 1;
    for (int kind = 0; kind < 3; kind++) {
        memset(bytes, 0, sizeof bytes);
        size_t length = kind == 1 ? LENGTH + 7 : LENGTH;
        ssize_t n = kind == 2 ? pread(fd, bytes, length, 5) : read(fd, bytes, length);
        printf("%zd of %zu, %s\n", n, length, filled(length));
    }
    ssize_t n = read(zero, bytes, LENGTH);
    size_t at = 0;
    while (at < LENGTH && bytes[at] == 0) at++;
    printf("zeroes: %zd, %s%s%s\n", n, at == LENGTH ? "all" : "not all", n < 0 ? ", " : "", n < 0 ? strerror(errno) : "");
    return 0;
}
