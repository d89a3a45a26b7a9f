/* Programs that do what they must not: each harms only itself, and dies of the signal that POSIX names. cairn-test: cores=4 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int sink;

static void null_read(void) { __asm__ volatile("mov 0, %%eax" : : : "eax"); }
static void null_write(void) { *(volatile int *)8 = 1; }
static void write_text(void) { *(volatile char *)(uintptr_t)null_read = 1; }
static void execute_data(void) {
    static unsigned char code[] = {0xc3};
    ((void (*)(void))(uintptr_t)code)();
}
static void execute_stack(void) {
    volatile unsigned char code[16] = {0xc3};
    ((void (*)(void))(uintptr_t)code)();
}
static void jump_wild(void) { ((void (*)(void))0x123456789000)(); }
static void jump_noncanonical(void) { ((void (*)(void))0x8000123456789000)(); }
static void jump_kernel(void) { ((void (*)(void))0xffffffff80100000)(); }
static void read_kernel(void) { sink = *(volatile int *)0xffffffff80100000; }
static int recurse(int depth) {
    volatile char frame[4096];
    frame[0] = depth;
    return depth > 100000000 ? 0 : recurse(depth + 1) + frame[0];
}
static void exhaust_stack(void) { sink = recurse(0); }
static void divide_by_zero(void) { __asm__ volatile("xor %%ecx, %%ecx; mov $1, %%eax; cdq; idiv %%ecx" : : : "eax", "ecx", "edx"); }
static void undefined(void) { __asm__ volatile("ud2"); }
static void breakpoint(void) { __asm__ volatile("int3"); }
static void halt(void) { __asm__ volatile("hlt"); }
static void disable_interrupts(void) { __asm__ volatile("cli"); }
static void port_output(void) { __asm__ volatile("outb %%al, $0x80" : : "a"(0)); }
static void load_page_table(void) { __asm__ volatile("mov %0, %%cr3" : : "r"(0L)); }
static void software_interrupt(void) { __asm__ volatile("int $0x0e"); }
static void unaligned_sse(void) {
    static char bytes[64] __attribute__((aligned(16)));
    __asm__ volatile("movaps (%0), %%xmm0" : : "r"(bytes + 1) : "xmm0");
}
static void bad_stack_pointer(void) { __asm__ volatile("mov $0x10, %%rsp; push %%rax" : : : "memory"); }
static void protected_page(void) {
    char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *p = 1;
    mprotect(p, 4096, PROT_READ);
    *(volatile char *)p = 2;
}
static void unmapped_page(void) {
    char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(p, 4096);
    *(volatile char *)p = 2;
}
static void ignored_fault(void) {
    signal(SIGSEGV, SIG_IGN);
    null_read();
}
static void aborts(void) { abort(); }

static const struct {
    const char *name;
    void (*run)(void);
} deeds[] = {
    {"null-read", null_read}, {"null-write", null_write}, {"write-text", write_text}, {"execute-data", execute_data},
    {"execute-stack", execute_stack}, {"jump-wild", jump_wild}, {"jump-noncanonical", jump_noncanonical}, {"jump-kernel", jump_kernel},
    {"read-kernel", read_kernel}, {"exhaust-stack", exhaust_stack}, {"divide-by-zero", divide_by_zero}, {"undefined", undefined},
    {"breakpoint", breakpoint}, {"halt", halt}, {"disable-interrupts", disable_interrupts}, {"port-output", port_output},
    {"load-page-table", load_page_table}, {"software-interrupt", software_interrupt}, {"unaligned-sse", unaligned_sse},
    {"bad-stack-pointer", bad_stack_pointer}, {"protected-page", protected_page}, {"unmapped-page", unmapped_page},
    {"ignored-fault", ignored_fault}, {"abort", aborts},
};

/* With a handler: what siginfo says, and that a handler on the alternate stack survives a stack overflow. */
static void describe(int signal, siginfo_t *info, void *context) {
    (void)context;
    char text[96];
    int n = snprintf(text, sizeof text, "  handler: signal %d code %d address %s\n", signal, info->si_code, info->si_addr == (void *)8 ? "8" : "other");
    _exit(write(1, text, n) == n ? 7 : 8);
}

static void with_handler(void (*deed)(void)) {
    static char alternate[65536];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    struct sigaction action = {.sa_sigaction = describe, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaltstack(&stack, NULL);
    for (int signal = 1; signal < 32; signal++) {
        sigaction(signal, &action, NULL);
    }
    deed();
}

static void result(const char *name, pid_t pid) {
    int status;
    if (waitpid(pid, &status, 0) != pid) {
        printf("%s: lost\n", name);
    } else if (WIFSIGNALED(status)) {
        printf("%s: signal %d\n", name, WTERMSIG(status));
    } else {
        printf("%s: exit %d\n", name, WEXITSTATUS(status));
    }
    fflush(stdout);
}

int main(void) {
    setbuf(stdout, NULL);
    for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            deeds[i].run();
            _exit(0);
        }
        result(deeds[i].name, pid);
    }
    void (*handled[])(void) = {null_write, exhaust_stack, divide_by_zero, undefined, breakpoint, protected_page, jump_wild, halt};
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            with_handler(handled[i]);
            _exit(0);
        }
        result("handled", pid);
    }
    puts("done");
    return 0;
}
