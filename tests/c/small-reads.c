/* Few bytes that are read into memory that cannot be written are lost to nobody: EFAULT, and they come next time. */
// cairn-test: time=40
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static char *page;

static void show(const char *what, ssize_t count, const char *bytes) {
    if (count < 0)
        printf("%s: %s\n", what, strerror(errno));
    else
        printf("%s: %zd %.*s\n", what, count, bytes ? (int)count : 0, bytes ? bytes : "");
}

/* From one end to the other, so many bytes. */
static void pass(const char *what, int to, int from, size_t length) {
    static const char data[] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ";
    char good[64] = "";
    printf("%s, %zu bytes\n", what, length);
    if (write(to, data, length) != (ssize_t)length)
        exit(1);
    show("read only", read(from, page + 100, length), NULL);
    show("not there", read(from, page + 4096, length), NULL);
    show("half there", read(from, page + 4096 - length / 2, length), NULL);
    show("again", read(from, good, length), good);
}

static void receive(const char *what, int to, int from, size_t length) {
    char good[64] = "";
    printf("%s, %zu bytes, recv\n", what, length);
    if (send(to, "the quick brown fox jumps over the lazy dog", length, 0) != (ssize_t)length)
        exit(1);
    show("read only", recv(from, page, length, 0), NULL);
    show("again", recv(from, good, length, 0), good);
}

int main(void) {
    const size_t lengths[] = {1, 2, 3, 4, 7, 8, 9, 16, 39, 40, 41};
    int ends[2], pair[2];
    page = mmap(NULL, 2 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + 4096, 4096);
    if (pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        return 1;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        pass("pipe", ends[1], ends[0], lengths[i]);
        pass("socket", pair[0], pair[1], lengths[i]);
        receive("socket", pair[0], pair[1], lengths[i]);
    }
    /* Half of a word may be there. */
    char *edge = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(edge + 4096, 4096);
    char good[8];
    if (write(ends[1], "12345678", 8) != 8)
        return 1;
    show("over the edge", read(ends[0], edge + 4092, 8) < 0 ? -1 : 0, NULL);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    /* Who finds nothing is told so, whatever the memory. */
    show("rest", read(ends[0], good, 8), NULL);
    show("empty", read(ends[0], page, 4), NULL);
    close(ends[1]);
    show("end", read(ends[0], page, 4), NULL);
    /* What is read stays where the memory cannot be written: also a file's position. */
    int file = open("few", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (write(file, "12345678", 8) != 8)
        return 1;
    lseek(file, 2, SEEK_SET);
    show("file", read(file, page, 4), NULL);
    show("file", read(file, good, 4), good);
    unlink("few");
    /* Bytes beside those that are read stay as they are. */
    memset(edge, 'x', 64);
    lseek(file, 0, SEEK_SET);
    show("few", read(file, edge + 8, 5), edge + 8);
    printf("%.20s\n", edge);
    return 0;
}
