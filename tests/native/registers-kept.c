/* Writes to a server that overwrites vector registers, again and again: this program's must be the same after every system call. Prints "kept". */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 5000 };

/* As FXSAVE has it: MXCSR is word 6, XMM0 to XMM15 are words 40 to 103. */
struct state {
    uint32_t words[128];
} __attribute__((aligned(16)));

static uint32_t seed = 1;
static uint32_t chance(void) { return seed = seed * 1664525 + 1013904223, seed >> 8; }

int main(void) {
    int file = open("/registers/turn", O_WRONLY);
    if (file < 0) {
        perror("/registers/turn");
        return 1;
    }
    struct state set, found;
    memset(&set, 0, sizeof set);
    __asm__ volatile("fxsave64 %0" : "=m"(set));
    for (int i = 0; i < ROUNDS; i++) {
        set.words[6] = 0x1f80 | (chance() & 3) << 13;
        for (int k = 40; k < 104; k++) {
            set.words[k] = chance();
        }
        long written = SYS_write;
        __asm__ volatile("fxrstor64 %1\n syscall\n fxsave64 %2\n ldmxcsr %3"
                         : "+a"(written)
                         : "m"(set), "m"(found), "m"((const uint32_t){0x1f80}), "D"(file), "S"("x"), "d"(1)
                         : "rcx", "r11", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
                           "xmm13", "xmm14", "xmm15");
        if (written != 1) {
            printf("round %d: write says %ld\n", i, written);
            return 1;
        }
        if (found.words[6] != set.words[6] || memcmp(&found.words[40], &set.words[40], 256)) {
            printf("round %d: other registers\n", i);
            return 1;
        }
    }
    puts("kept");
    return 0;
}
