/* Threads that are moved from core to core keep what is theirs: vector registers, rounding, thread-local storage, while signals interrupt them, processes are forked and memory is
   taken from under them. cairn-test: cores=4 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

enum { THREADS = 6, ROUNDS = 150, CORES = 4, PAGES = 16, PAGE = 4096 };
static __thread long own;
static volatile int stop;
static int moved;

typedef struct {
    unsigned char bytes[16 * 16];
} Registers;

/* Fill xmm0 to xmm15, do a system call (the vector registers are the program's during it), and give them back. */
static long call_with(long number, long a, long b, long c, Registers *in, Registers *out) {
    long result;
    __asm__ volatile(
        "movdqu (%[in]), %%xmm0\n movdqu 16(%[in]), %%xmm1\n movdqu 32(%[in]), %%xmm2\n movdqu 48(%[in]), %%xmm3\n"
        "movdqu 64(%[in]), %%xmm4\n movdqu 80(%[in]), %%xmm5\n movdqu 96(%[in]), %%xmm6\n movdqu 112(%[in]), %%xmm7\n"
        "movdqu 128(%[in]), %%xmm8\n movdqu 144(%[in]), %%xmm9\n movdqu 160(%[in]), %%xmm10\n movdqu 176(%[in]), %%xmm11\n"
        "movdqu 192(%[in]), %%xmm12\n movdqu 208(%[in]), %%xmm13\n movdqu 224(%[in]), %%xmm14\n movdqu 240(%[in]), %%xmm15\n"
        "syscall\n"
        "movdqu %%xmm0, (%[out])\n movdqu %%xmm1, 16(%[out])\n movdqu %%xmm2, 32(%[out])\n movdqu %%xmm3, 48(%[out])\n"
        "movdqu %%xmm4, 64(%[out])\n movdqu %%xmm5, 80(%[out])\n movdqu %%xmm6, 96(%[out])\n movdqu %%xmm7, 112(%[out])\n"
        "movdqu %%xmm8, 128(%[out])\n movdqu %%xmm9, 144(%[out])\n movdqu %%xmm10, 160(%[out])\n movdqu %%xmm11, 176(%[out])\n"
        "movdqu %%xmm12, 192(%[out])\n movdqu %%xmm13, 208(%[out])\n movdqu %%xmm14, 224(%[out])\n movdqu %%xmm15, 240(%[out])\n"
        : "=a"(result)
        : "a"(number), "D"(a), "S"(b), "d"(c), [in] "r"(in), [out] "r"(out)
        : "rcx", "r11", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    return result;
}

/* A handler that leaves nothing in the registers as it was. */
static void scramble(int signal) {
    Registers in, out;
    memset(&in, signal, sizeof in);
    _MM_SET_ROUNDING_MODE(_MM_ROUND_UP);
    call_with(39, 0, 0, 0, &in, &out);
}

static int roundings[] = {_MM_ROUND_NEAREST, _MM_ROUND_UP, _MM_ROUND_DOWN, _MM_ROUND_TOWARD_ZERO};

static void *moves(void *argument) {
    long me = (long)argument, wrong = 0;
    int rounding = roundings[me % 4];
    own = me * 1000;
    _MM_SET_ROUNDING_MODE(rounding);
    for (int i = 0; i < ROUNDS; i++) {
        Registers in, out;
        for (unsigned k = 0; k < sizeof in; k++) {
            in.bytes[k] = (unsigned char)(me * 37 + i * 11 + k);
        }
        /* sched_setaffinity to one core (fails where there is only one), sched_yield, a page that is not there yet. */
        unsigned long mask = 1ul << ((me + i) % CORES);
        switch (i % 3) {
        case 0: call_with(203, 0, sizeof mask, (long)&mask, &in, &out); break;
        case 1: call_with(24, 0, 0, 0, &in, &out); break;
        default: call_with(186, 0, 0, 0, &in, &out);
        }
        wrong += memcmp(&in, &out, sizeof in) != 0;
        wrong += _MM_GET_ROUNDING_MODE() != (unsigned)rounding;
        wrong += own != me * 1000 + i;
        own++;
        /* As many cycles as it takes to be interrupted now and then. */
        volatile double sum = 0;
        for (int k = 1; k < 200; k++) {
            sum += 1.0 / k;
        }
    }
    __atomic_add_fetch(&moved, 1, __ATOMIC_SEQ_CST);
    return (void *)wrong;
}

/* Another thread keeps sending signals to all. */
static pthread_t threads[THREADS];
static void *disturbs(void *unused) {
    while (!stop) {
        for (int i = 0; i < THREADS && !stop; i++) {
            pthread_kill(threads[i], SIGUSR1);
        }
        usleep(1000);
    }
    return unused;
}

/* A thread that writes to pages while a second one takes the right to write away and gives it back, and a third one forks: each write is there in the end. */
static unsigned char *pages;
static void *writes(void *argument) {
    long me = (long)argument, wrong = 0;
    for (int i = 0; i < 1500; i++) {
        volatile unsigned *word = (unsigned *)(pages + (i % PAGES) * PAGE + me * 64);
        unsigned before = *word;
        *word = before + 1;
        wrong += *word != before + 1;
    }
    return (void *)wrong;
}
static void *forks(void *unused) {
    long wrong = 0;
    for (int i = 0; i < 15; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            /* What this copy has must not change while the parent goes on writing. */
            unsigned sum = 0, again = 0;
            for (int k = 0; k < PAGES * PAGE; k++) {
                sum = sum * 31 + pages[k];
            }
            sched_yield();
            for (int k = 0; k < PAGES * PAGE; k++) {
                again = again * 31 + pages[k];
            }
            _exit(sum != again);
        }
        int status = 0;
        wrong += waitpid(pid, &status, 0) != pid || status != 0;
    }
    (void)unused;
    return (void *)wrong;
}

/* Memory that one thread takes away and maps anew while others look at it: they see zeroes or what they wrote, never anybody else's bytes. */
static unsigned char *volatile window;
static void *remaps(void *unused) {
    long wrong = 0;
    for (int i = 0; i < 150; i++) {
        void *got = mmap(window, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        wrong += got != window;
        /* Other pages of the process get the frames that are free now, and something in them. */
        unsigned char *other = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(other, 0xee, 4 * PAGE);
        munmap(other, 4 * PAGE);
    }
    stop = 1;
    (void)unused;
    return (void *)wrong;
}
static void *looks(void *argument) {
    long me = (long)argument, wrong = 0;
    while (!stop) {
        for (int page = 0; page < 4; page++) {
            unsigned char *byte = window + page * PAGE + 100 + me;
            *(volatile unsigned char *)byte = (unsigned char)(me + 1);
            unsigned char seen = *(volatile unsigned char *)byte;
            wrong += seen != 0 && seen != me + 1;
            wrong += *(volatile unsigned char *)(window + page * PAGE + 3000) != 0;
        }
        sched_yield();
    }
    return (void *)wrong;
}

static long join_all(pthread_t *all, int count) {
    long wrong = 0;
    for (int i = 0; i < count; i++) {
        void *result;
        pthread_join(all[i], &result);
        wrong += (long)result;
    }
    return wrong;
}

/* Of a thread that there is not. */
static void of_nobody(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    int got = sched_getaffinity(-1, sizeof set, &set) ? errno : 0, small = sched_getaffinity(-1, 4, &set) ? errno : 0;
    printf("nobody's cores: %s, %s, %s\n", strerror(got), strerror(small), sched_setaffinity(-1, sizeof set, &set) ? strerror(errno) : "set");
}

int main(void) {
    setbuf(stdout, NULL);
    of_nobody();
    struct sigaction action = {.sa_handler = scramble, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t disturber;
    for (long i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, moves, (void *)i);
    }
    pthread_create(&disturber, NULL, disturbs, NULL);
    /* Signals go to threads that have not been joined. */
    while (__atomic_load_n(&moved, __ATOMIC_SEQ_CST) < THREADS) {
        usleep(1000);
    }
    stop = 1;
    pthread_join(disturber, NULL);
    long wrong = join_all(threads, THREADS);
    printf("registers: %ld wrong\n", wrong);

    pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, writes, (void *)i);
    }
    pthread_create(&threads[3], NULL, forks, NULL);
    wrong = join_all(threads, 4);
    unsigned total = 0;
    for (int i = 0; i < 3 * PAGES; i++) {
        total += *(unsigned *)(pages + i / 3 * PAGE + i % 3 * 64);
    }
    printf("copies: %ld wrong, %u written\n", wrong, total);

    stop = 0;
    window = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, looks, (void *)i);
    }
    pthread_create(&threads[3], NULL, remaps, NULL);
    printf("windows: %ld wrong\n", join_all(threads, 4));
    return 0;
}
