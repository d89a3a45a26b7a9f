/* 64 MiB through a pipe arrive intact, whatever the sizes of the pieces. */
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOTAL = 64 << 20, MOST = 100000 };
static uint8_t buffer[MOST];

static uint32_t step(uint32_t x) { return x * 1664525u + 1013904223u; }

int main(void) {
    int p[2];
    if (pipe(p) < 0) {
        return 1;
    }
    if (fork() == 0) {
        close(p[0]);
        uint32_t sizes = 7, data = 1;
        for (long sent = 0; sent < TOTAL;) {
            sizes = step(sizes);
            long want = 1 + (sizes >> 8) % MOST;
            if (want > TOTAL - sent) {
                want = TOTAL - sent;
            }
            for (long i = 0; i < want; i++) {
                data = step(data);
                buffer[i] = data >> 24;
            }
            for (long done = 0; done < want;) {
                ssize_t n = write(p[1], buffer + done, want - done);
                if (n <= 0) {
                    _exit(1);
                }
                done += n;
            }
            sent += want;
        }
        _exit(0);
    }
    close(p[1]);
    uint32_t sizes = 99, data = 1;
    long got = 0, wrong = 0;
    for (;;) {
        sizes = step(sizes);
        ssize_t n = read(p[0], buffer, 1 + (sizes >> 8) % MOST);
        if (n <= 0) {
            break;
        }
        for (ssize_t i = 0; i < n; i++) {
            data = step(data);
            wrong += buffer[i] != (uint8_t)(data >> 24);
        }
        got += n;
    }
    int status;
    wait(&status);
    printf("%ld bytes, %ld wrong, writer %d\n", got, wrong, status);
    return got == TOTAL && wrong == 0 && status == 0 ? 0 : 1;
}
