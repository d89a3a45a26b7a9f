/* Does to files what the host says, one operation a line, and answers those that promise something. Run by `./cairn powercut`, which cuts the power in between.
 *     c NAME  w NAME OFFSET LENGTH SEED  t NAME LENGTH  r OLD NEW  l OLD NEW  u NAME  d FOLDER  x FOLDER
 *     f NAME (fsync)  F NAME (fdatasync)  s (sync): answered by a line "done"
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(const char *line) {
    printf("failed: %s: %s\n", line, strerror(errno));
    exit(1);
}

static int with(const char *name, int flags) { return open(name, flags, 0644); }

/* What stands at each place of a file is known from the write's seed, and is never zero. */
static unsigned char pattern(uint32_t seed, uint32_t at) {
    uint32_t h = at * 2654435761u + seed * 40503u;
    return (h ^ h >> 15) | 1;
}

static int put(const char *name, long offset, long length, long seed) {
    static unsigned char buffer[1 << 20];
    int file = with(name, O_WRONLY);
    for (long i = 0; i < length; i++) {
        buffer[i] = pattern(seed, offset + i);
    }
    int result = file < 0 || pwrite(file, buffer, length, offset) != length ? -1 : 0;
    close(file);
    return result;
}

static int keep(const char *name, int data_only) {
    int file = with(name, O_RDONLY);
    int result = file < 0 || (data_only ? fdatasync(file) : fsync(file)) < 0 ? -1 : 0;
    close(file);
    return result;
}

int main(int count, char **arguments) {
    static char line[512], copy[512];
    if (count < 2 || chdir(arguments[1]) < 0) {
        fail("chdir");
    }
    while (fgets(line, sizeof line, stdin)) {
        char a[128] = "", b[128] = "", op = 0;
        long numbers[3] = {0};
        strcpy(copy, line);
        sscanf(line, "%c %127s %127s", &op, a, b);
        sscanf(line, "%*c %*s %ld %ld %ld", &numbers[0], &numbers[1], &numbers[2]);
        int file, result = -1;
        errno = EINVAL;
        switch (op) {
        case 'c':
            file = with(a, O_WRONLY | O_CREAT | O_EXCL);
            result = file < 0 ? -1 : close(file);
            break;
        case 'w':
            result = numbers[1] <= 1 << 20 ? put(a, numbers[0], numbers[1], numbers[2]) : -1;
            break;
        case 't': result = truncate(a, numbers[0]); break;
        case 'r': result = rename(a, b); break;
        case 'l': result = link(a, b); break;
        case 'u': result = unlink(a); break;
        case 'd': result = mkdir(a, 0755); break;
        case 'x': result = rmdir(a); break;
        case 'f': result = keep(a, 0); break;
        case 'F': result = keep(a, 1); break;
        case 's': sync(); result = 0; break;
        }
        if (result < 0) {
            fail(copy);
        }
        if (strchr("fFs", op)) {
            printf("done\n");
            fflush(stdout);
        }
    }
    return 0;
}
