/* One process changes names, modes, owners, lengths and times at random; after each change two others, one of them not root, stat and open the same names: what they find is printed, and must be what Linux finds.
 * cairn-test: disk=32M */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 500, NAMES = 9 };

static const char *names[NAMES] = {"names/a", "names/b", "names/d/a", "names/d/b", "names/d/./e/../a", "names/d", "names/e/a", "names/link", "names/d/a-name-that-is-too-long-for-the-words-of-a-message"};
static char top[200];
static unsigned state = 20261122;

static unsigned next_random(unsigned below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

/* What there is under a name: by name, by an absolute one, and by opening it. */
static unsigned look(const char *name, char *text) {
    struct stat by_name, absolute, opened;
    char path[400];
    snprintf(path, sizeof path, "%s/%s", top, name);
    int result = stat(name, &by_name) ? errno : 0;
    int other = stat(path, &absolute) ? errno : 0;
    int links = lstat(name, &opened) ? errno : 0;
    if (links == 0 && S_ISLNK(opened.st_mode)) {
        links = 1000;
    }
    int fd = open(next_random(2) ? path : name, O_RDONLY), why = fd < 0 ? errno : 0;
    if (result != other || (result == 0 && memcmp(&by_name, &absolute, sizeof absolute))) {
        printf("%s: relative and absolute differ: %d, %d\n", name, result, other);
    }
    if (fd >= 0) {
        if (fstat(fd, &opened) || memcmp(&by_name, &opened, sizeof opened)) {
            printf("%s: opened and named differ\n", name);
        }
        close(fd);
    }
    if (result) {
        memset(&by_name, 0, sizeof by_name);
    }
    int directory = S_ISDIR(by_name.st_mode);
    return sprintf(text, " %d/%d/%d:%o,%u,%lld,%lld,%lld.%ld", result, why, links, by_name.st_mode, by_name.st_uid, directory ? 0LL : (long long)by_name.st_nlink,
                   directory ? 0LL : (long long)by_name.st_size, result || by_name.st_mtime > 1700000000 ? 0LL : (long long)by_name.st_mtime, by_name.st_mtime > 1700000000 ? 0 : by_name.st_mtim.tv_nsec);
}

static void observer(int uid, int in, int out) {
    char c, text[4096];
    if (uid && seteuid(uid)) {
        _exit(1);
    }
    state += uid;
    while (read(in, &c, 1) == 1) {
        unsigned length = sprintf(text, "%d:", uid);
        for (int i = 0; i < NAMES; i++) {
            length += look(names[i], text + length);
        }
        puts(text);
        fflush(stdout);
        if (write(out, "x", 1) != 1) {
            _exit(1);
        }
    }
    _exit(0);
}

static void change(void) {
    static const char *files[] = {"names/a", "names/b", "names/d/a", "names/d/b", "names/e/a", "names/d/a-name-that-is-too-long-for-the-words-of-a-message"};
    const char *one = files[next_random(6)], *other = files[next_random(6)];
    static const int modes[] = {0755, 0700, 0644, 0111, 0444, 0644};
    int mode = modes[next_random(6)], result = 0, fd;
    int kind = next_random(20);
    switch (kind) {
    case 0: result = rename(one, other); break;
    case 1: result = rename("names/d", "names/e"); break;
    case 2: result = rename("names/e", "names/d"); break;
    case 3: result = unlink(one); break;
    case 4: result = chmod(one, mode); break;
    case 5: result = chmod(next_random(8) ? "names/d" : "names", next_random(3) ? 0755 : mode); break;
    case 6: result = chown(one, next_random(2) ? 1000 : 0, 0); break;
    case 7: result = link(one, other); break;
    case 8: result = truncate(one, next_random(9000)); break;
    case 9: {
        struct timespec times[2] = {{next_random(1000), next_random(1000)}, {(long)next_random(2000) - 500, next_random(1000000000)}};
        result = utimensat(AT_FDCWD, one, times, 0);
        break;
    }
    case 10: unlink("names/link"); result = symlink(next_random(2) ? "d/a" : one + 6, "names/link"); break;
    case 11: result = mkdir(next_random(2) ? "names/d" : "names/e", 0755); break;
    case 12: {
        char target[400];
        unlink("names/link");
        snprintf(target, sizeof target, "%s/%s", top, one);
        result = symlink(target, "names/link");
        break;
    }
    default:
        fd = open(one, O_RDWR | O_CREAT, 0644);
        result = fd < 0 ? -1 : (int)write(fd, "text", next_random(5));
        close(fd);
    }
    printf("%d %d %d\n", kind, result, result < 0 ? errno : 0);
    fflush(stdout);
}

int main(void) {
    int to[2][2], from[2][2];
    if (!getcwd(top, sizeof top) || mkdir("names", 0755) || chmod(".", 0755)) {
        perror("names");
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        if (pipe(to[i]) || pipe(from[i])) {
            return 1;
        }
        if (fork() == 0) {
            close(to[0][1]);
            close(to[i][1]);
            observer(i * 1000, to[i][0], from[i][1]);
        }
    }
    mkdir("names/d", 0755);
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 10 == 0) {
            chmod("names", 0755);
        }
        change();
        for (int i = 0; i < 2; i++) {
            char c;
            if (write(to[i][1], "x", 1) != 1 || read(from[i][0], &c, 1) != 1) {
                printf("observer %d is gone\n", i);
                return 1;
            }
        }
    }
    chmod("names", 0755);
    for (int i = 0; i < 2; i++) {
        int status;
        close(to[i][1]);
        wait(&status);
    }
    return 0;
}
