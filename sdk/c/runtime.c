// What every native component in C starts with: the first instruction, the gate, the start-up block, the log, the receive loop.

#include <cairn/device.h>
#include <cairn/pages.h>
#include <cairn/runtime.h>
#include <cairn/window.h>

// The start-up block (cairn-abi, `state::Startup` and `NamedPortal`), readable at CAIRN_STARTUP.
struct startup {
    uint64_t magic;
    uint32_t arguments_length, portals;
    uint64_t archive_length;
    uint64_t keepsake_length;
    char name[24];
};
struct named_portal {
    char name[24];
    uint32_t slot, reserved;
};
_Static_assert(sizeof(struct startup) == 56 && sizeof(struct named_portal) == 32, "as in cairn-abi");

int main(void);

// The stack is aligned as the calling convention wants it.
__asm__(".globl _start\n"
        "_start:\n"
        "    and $-16, %rsp\n"
        "    call cairn_start\n"
        "    ud2\n");

// All registers from the structure, through the gate, and back.
__asm__(".globl cairn_traverse\n"
        "cairn_traverse:\n"
        "    push %rbx\n    push %rbp\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n    push %rdi\n"
        "    mov (%rdi), %rax\n"
        "    mov 16(%rdi), %rsi\n    mov 24(%rdi), %rdx\n    mov 32(%rdi), %r10\n    mov 40(%rdi), %r8\n    mov 48(%rdi), %r9\n"
        "    mov 56(%rdi), %r12\n    mov 64(%rdi), %r13\n    mov 72(%rdi), %rbx\n    mov 80(%rdi), %rbp\n"
        "    mov 88(%rdi), %r14\n    mov 96(%rdi), %r15\n    mov 8(%rdi), %rdi\n"
        "    syscall\n"
        "    pop %rcx\n"
        "    mov %rax, (%rcx)\n    mov %rdi, 8(%rcx)\n    mov %rsi, 16(%rcx)\n    mov %rdx, 24(%rcx)\n    mov %r10, 32(%rcx)\n"
        "    mov %r8, 40(%rcx)\n    mov %r9, 48(%rcx)\n    mov %r12, 56(%rcx)\n    mov %r13, 64(%rcx)\n    mov %rbx, 72(%rcx)\n"
        "    mov %rbp, 80(%rcx)\n    mov %r14, 88(%rcx)\n    mov %r15, 96(%rcx)\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbp\n    pop %rbx\n"
        "    ret\n");

static const struct startup *startup(void)
{
    return (const struct startup *)CAIRN_STARTUP;
}

__attribute__((used)) _Noreturn static void cairn_start(void)
{
    cairn_exit((uint64_t)(int64_t)main());
}

// A nucleus service's operation with up to four words: rax; the words of the answer replace those given.
static uint64_t service(cairn_portal slot, uint64_t operation, uint64_t words[8])
{
    return cairn_traverse_words(cairn_selector(slot, operation, 0), words);
}

_Noreturn void cairn_exit(uint64_t value)
{
    for (;;) {
        uint64_t words[8] = { value };
        service(CAIRN_SLOT_CURRENT, CAIRN_CURRENT_EXIT, words);
    }
}

uint64_t cairn_clock(void)
{
    uint64_t words[8] = { 0 };
    return service(CAIRN_SLOT_CURRENT, CAIRN_CURRENT_CLOCK, words) & 255 ? 0 : words[0];
}

void cairn_close(cairn_portal portal)
{
    uint64_t words[8] = { portal };
    service(CAIRN_SLOT_CURRENT, CAIRN_CURRENT_PORTAL_CLOSE, words);
}

int64_t cairn_notify(cairn_portal to, uint64_t value)
{
    uint64_t words[8] = { value };
    uint64_t rax = service(to, CAIRN_OP_NOTIFY, words);
    return rax & 255 ? CAIRN_GATE_FAILED(rax) : 0;
}

cairn_portal cairn_make_portal(uint64_t badge)
{
    uint64_t words[8] = { badge, CAIRN_RIGHTS_DEFAULT, CAIRN_AUTO };
    uint64_t rax = service(CAIRN_SLOT_RECEIVE, CAIRN_RECEIVE_MAKE_PORTAL, words);
    return rax & 255 ? CAIRN_NO_PORTAL : (cairn_portal)words[0];
}

const char *cairn_name(void)
{
    return startup()->name;
}

cairn_portal cairn_portal_named(const char *name)
{
    const struct startup *block = startup();
    const struct named_portal *portals = (const struct named_portal *)(block + 1);
    size_t length = strlen(name);
    if (block->magic != CAIRN_STARTUP_MAGIC || length >= sizeof portals->name)
        return CAIRN_NO_PORTAL;
    for (uint32_t i = 0; i < block->portals; i++)
        if (memcmp(portals[i].name, name, length + 1) == 0)
            return portals[i].slot;
    return CAIRN_NO_PORTAL;
}

const char *cairn_argument(const char *name)
{
    const struct startup *block = startup();
    if (block->magic != CAIRN_STARTUP_MAGIC)
        return 0;
    // Texts one behind the other, each with a zero at its end.
    const char *text = (const char *)((const struct named_portal *)(block + 1) + block->portals);
    const char *end = text + block->arguments_length;
    size_t length = strlen(name);
    for (; text < end; text += strlen(text) + 1)
        if (strlen(text) > length && memcmp(text, name, length) == 0 && text[length] == '=')
            return text + length + 1;
    return 0;
}

// A service without portals and parts, of which one word comes back: that word, or CAIRN_GATE_FAILED.
static int64_t word_of(cairn_portal slot, uint64_t operation, uint64_t w0, uint64_t w1)
{
    uint64_t words[8] = { w0, w1 };
    uint64_t rax = service(slot, operation, words);
    return rax & 255 ? CAIRN_GATE_FAILED(rax) : (int64_t)words[0];
}

// The same where nothing comes back: 0, or CAIRN_GATE_FAILED.
static int64_t done_by(cairn_portal slot, uint64_t operation, uint64_t w0, uint64_t w1)
{
    int64_t result = word_of(slot, operation, w0, w1);
    return result <= CAIRN_GATE_FAILED(0) ? result : 0;
}

int64_t cairn_in8(cairn_portal ports, uint16_t port)
{
    return word_of(ports, CAIRN_PORTS_IN8, port, 0);
}

int64_t cairn_in16(cairn_portal ports, uint16_t port)
{
    return word_of(ports, CAIRN_PORTS_IN16, port, 0);
}

int64_t cairn_in32(cairn_portal ports, uint16_t port)
{
    return word_of(ports, CAIRN_PORTS_IN32, port, 0);
}

int64_t cairn_out8(cairn_portal ports, uint16_t port, uint8_t value)
{
    return done_by(ports, CAIRN_PORTS_OUT8, port, value);
}

int64_t cairn_out16(cairn_portal ports, uint16_t port, uint16_t value)
{
    return done_by(ports, CAIRN_PORTS_OUT16, port, value);
}

int64_t cairn_out32(cairn_portal ports, uint16_t port, uint32_t value)
{
    return done_by(ports, CAIRN_PORTS_OUT32, port, value);
}

int64_t cairn_interrupt_bind(cairn_portal interrupt, uint64_t badge)
{
    return done_by(interrupt, CAIRN_INTERRUPT_BIND, CAIRN_SLOT_RECEIVE, badge);
}

int64_t cairn_interrupt_acknowledge(cairn_portal interrupt)
{
    return done_by(interrupt, CAIRN_INTERRUPT_ACKNOWLEDGE, 0, 0);
}

// A number as `init` writes it, 0x and digits; how many characters that was, 0: none.
static size_t hexadecimal(const char *text, uint64_t *number)
{
    size_t at = 2;
    if (text[0] != '0' || text[1] != 'x')
        return 0;
    for (*number = 0;; at++) {
        char digit = text[at];
        if (digit >= '0' && digit <= '9')
            *number = *number << 4 | (uint64_t)(digit - '0');
        else if (digit >= 'a' && digit <= 'f')
            *number = *number << 4 | (uint64_t)(digit - 'a' + 10);
        else
            return at > 2 ? at : 0;
    }
}

volatile void *cairn_registers(const char *name, size_t *length)
{
    const char *text = cairn_argument(name);
    uint64_t base, bytes;
    size_t first = text ? hexadecimal(text, &base) : 0;
    // Nothing but what `init` maps there lies in that part of the layout.
    if (first == 0 || text[first] != ':' || hexadecimal(text + first + 1, &bytes) == 0 || base < CAIRN_DEVICES)
        return 0;
    *length = bytes;
    return (volatile void *)base;
}

// A line that is being put together; what does not fit is cut.
struct line {
    char text[256];
    size_t length;
};

static void append(struct line *line, const char *text, size_t most)
{
    for (size_t i = 0; i < most && text[i] && line->length < sizeof line->text; i++)
        line->text[line->length++] = text[i];
}

static void begin(struct line *line)
{
    line->length = 0;
    append(line, cairn_name(), sizeof startup()->name);
    append(line, ": ", 2);
}

static void write_line(const struct line *line)
{
    uint64_t words[8] = { (uint64_t)line->text, line->length };
    service(CAIRN_SLOT_LOG, CAIRN_LOG_WRITE, words);
}

void cairn_log(const char *text)
{
    struct line line;
    begin(&line);
    append(&line, text, SIZE_MAX);
    write_line(&line);
}

void cairn_log_number(const char *text, int64_t number)
{
    struct line line;
    begin(&line);
    append(&line, text, SIZE_MAX);
    char digits[24];
    size_t at = sizeof digits;
    digits[--at] = 0;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (number < 0)
        digits[--at] = '-';
    append(&line, " ", 1);
    append(&line, digits + at, sizeof digits - at);
    write_line(&line);
}

// `count`: bytes there, or with a vector's flag pieces.
static int64_t copy(uint64_t operation, uint64_t vector, const struct cairn_caller *caller, size_t offset, uint64_t address, size_t count)
{
    if (count == 0)
        return 0;
    uint64_t words[8] = { caller->token, offset, address, count };
    uint64_t rax = cairn_traverse_words(cairn_selector(caller->receiver, operation, vector), words);
    return rax & 255 ? CAIRN_GATE_FAILED(rax) : (int64_t)words[0];
}

int64_t cairn_read(const struct cairn_caller *caller, size_t offset, void *into, size_t length)
{
    return copy(CAIRN_RECEIVE_READ, 0, caller, offset, (uint64_t)into, length);
}

int64_t cairn_write(const struct cairn_caller *caller, size_t offset, const void *from, size_t length)
{
    return copy(CAIRN_RECEIVE_WRITE, 0, caller, offset, (uint64_t)from, length);
}

int64_t cairn_read_pieces(const struct cairn_caller *caller, size_t offset, const struct cairn_room *into, size_t pieces)
{
    return copy(CAIRN_RECEIVE_READ, CAIRN_FLAG_IN_VECTOR, caller, offset, (uint64_t)into, pieces);
}

int64_t cairn_write_pieces(const struct cairn_caller *caller, size_t offset, const struct cairn_bytes *from, size_t pieces)
{
    return copy(CAIRN_RECEIVE_WRITE, CAIRN_FLAG_OUT_VECTOR, caller, offset, (uint64_t)from, pieces);
}

int64_t cairn_window_make(struct cairn_window *window, size_t pages)
{
    uint64_t address = 0;
    int64_t failed = vm_map(CAIRN_SLOT_VM, 0, pages * CAIRN_PAGE, VM_PROT_READ | VM_PROT_WRITE, VM_FLAGS_POPULATE, &address);
    if (failed)
        return failed;
    uint64_t words[8] = { address, pages, CAIRN_AUTO };
    uint64_t rax = service(CAIRN_SLOT_CURRENT, CAIRN_CURRENT_WINDOW_CREATE, words);
    if (rax & 255) {
        vm_unmap(CAIRN_SLOT_VM, address, pages * CAIRN_PAGE);
        return CAIRN_GATE_FAILED(rax);
    }
    *window = (struct cairn_window){ (cairn_portal)words[0], (volatile uint64_t *)address, pages };
    return 0;
}

int64_t cairn_window_open(const struct cairn_window *window, const struct cairn_caller *caller, size_t offset, size_t pages, uint64_t flags)
{
    uint64_t words[8] = { caller->receiver, caller->token, offset, pages, flags };
    uint64_t rax = service(window->portal, CAIRN_WINDOW_OPEN, words);
    return rax & 255 ? CAIRN_GATE_FAILED(rax) : 0;
}

void cairn_window_close(const struct cairn_window *window)
{
    uint64_t words[8] = { 0 };
    service(window->portal, CAIRN_WINDOW_CLOSE, words);
}

int64_t cairn_pages_offer(void *pages, size_t length, vm_giving how, uint32_t receiver, cairn_portal *offer)
{
    return vm_offer(CAIRN_SLOT_VM, (uint64_t)pages, length, how, receiver, offer);
}

int64_t cairn_pages_take(cairn_portal offer, size_t most, void **pages, size_t *length)
{
    uint64_t start, taken;
    int64_t failed = vm_take(CAIRN_SLOT_VM, 0, most, 0, offer, &start, &taken);
    if (failed)
        return failed;
    cairn_close(offer);
    *pages = (void *)start;
    *length = taken;
    return 0;
}

void cairn_pages_drop(void *pages, size_t length)
{
    vm_unmap(CAIRN_SLOT_VM, (uint64_t)pages, length);
}

// Did the nucleus take the whole signature?
static _Bool is_signed;

static uint64_t sign(const uint64_t line[8])
{
    uint64_t words[8];
    memcpy(words, line, sizeof words);
    return service(CAIRN_SLOT_RECEIVE, CAIRN_RECEIVE_SIGN, words) & 255;
}

int64_t cairn_sign(const struct cairn_signature *signature)
{
    uint64_t info[8] = { 0 };
    if (signature->switched && (service(CAIRN_SLOT_DOMAIN, CAIRN_DOMAIN_INFO, info) & 255 || info[6] != 1)) {
        cairn_log("its interface says `float switched`, so its line in the manifest must say registers = \"own\"");
        cairn_exit(1);
    }
    uint64_t error = sign((const uint64_t[8]){ CAIRN_AUTO });
    for (size_t i = 0; error == 0 && i < signature->count; i++) {
        error = sign(signature->lines[i]);
        if (error == CAIRN_ERROR_NO_MEMORY && vm_more_objects(CAIRN_SLOT_VM, CAIRN_POOL_SIGNATURE) >= 0)
            error = sign(signature->lines[i]);
    }
    is_signed = error == 0;
    return error ? CAIRN_GATE_FAILED(error) : 0;
}

// One traversal of the receive right, and what it delivered.
static int64_t exchange(struct cairn_gate *gate, struct cairn_caller *into)
{
    cairn_traverse(gate);
    if (gate->rax & 255)
        return CAIRN_GATE_FAILED(gate->rax);
    for (int i = 0; i < 8; i++)
        into->words[i] = gate->words[i];
    into->badge = gate->rbx;
    into->token = gate->rbp;
    into->label = gate->r14;
    into->out_length = (uint32_t)gate->r15;
    into->in_length = gate->r15 >> 32;
    into->kind = gate->rax >> CAIRN_RECEIVED_KIND_SHIFT & 255;
    into->portals = gate->rax >> CAIRN_RECEIVED_PORTALS_SHIFT & 15;
    into->sender = (uint32_t)(gate->rax >> CAIRN_RECEIVED_SENDER_SHIFT);
    into->receiver = CAIRN_SLOT_RECEIVE;
    into->is_signed = is_signed;
    return 0;
}

int64_t cairn_receive(struct cairn_caller *into, uint64_t deadline)
{
    if (deadline) {
        uint64_t words[8] = { deadline };
        service(CAIRN_SLOT_CURRENT, CAIRN_CURRENT_DEADLINE, words);
    }
    struct cairn_gate gate = { .rax = cairn_selector(CAIRN_SLOT_RECEIVE, CAIRN_RECEIVE_RECEIVE, 0) };
    return exchange(&gate, into);
}

static struct cairn_gate reply_gate(uint64_t operation, uint64_t token, const struct cairn_reply *reply)
{
    uint64_t flags = reply->flags | (uint64_t)reply->portals << CAIRN_PORTALS_SHIFT;
    if (reply->data_length)
        flags |= CAIRN_FLAG_PARTS;
    struct cairn_gate gate = {
        .rax = cairn_selector(CAIRN_SLOT_RECEIVE, operation, flags),
        .rbp = token,
        .r14 = (uint64_t)reply->data,
        .r15 = reply->data_length,
    };
    for (int i = 0; i < 8; i++)
        gate.words[i] = reply->words[i];
    return gate;
}

// The caller whose answer could not be delivered still waits, unless it is gone: tell it why. Portals that should have gone over to it are still here.
static void apologise(uint64_t token, int64_t failure, const struct cairn_reply *answer)
{
    if (answer->flags & CAIRN_FLAG_MOVE)
        for (unsigned i = 8 - answer->portals; i < 8; i++)
            cairn_close((cairn_portal)answer->words[i]);
    int64_t error = CAIRN_EIO;
    if (failure == CAIRN_GATE_FAILED(CAIRN_ERROR_BAD_TOKEN))
        return;
    if (failure == CAIRN_GATE_FAILED(CAIRN_ERROR_BAD_ADDRESS))
        error = CAIRN_EFAULT;
    if (failure == CAIRN_GATE_FAILED(CAIRN_ERROR_NO_SLOT))
        error = CAIRN_EMFILE;
    struct cairn_reply reply = { .words = { (uint64_t)-error } };
    struct cairn_gate gate = reply_gate(CAIRN_RECEIVE_REPLY, token, &reply);
    cairn_traverse(&gate);
}

int64_t cairn_answer(uint64_t token, const struct cairn_reply *reply)
{
    struct cairn_gate gate = reply_gate(CAIRN_RECEIVE_REPLY, token, reply);
    cairn_traverse(&gate);
    if ((gate.rax & 255) == 0)
        return 0;
    int64_t failure = CAIRN_GATE_FAILED(gate.rax);
    apologise(token, failure, reply);
    return failure;
}

_Noreturn void cairn_serve(cairn_dispatch *dispatch, const struct cairn_signature *signature, const void *server, void *self, void (*pulse)(void *self, const struct cairn_caller *pulse))
{
    struct cairn_caller caller;
    struct cairn_reply reply;
    if (cairn_sign(signature) != 0)
        cairn_exit(1);
    for (;;) {
        int64_t failure = cairn_receive(&caller, 0);
        while (failure == 0 && caller.kind == CAIRN_KIND_MESSAGE && dispatch(server, self, &caller, &reply)) {
            uint64_t token = caller.token;
            struct cairn_gate gate = reply_gate(CAIRN_RECEIVE_REPLY_RECEIVE, token, &reply);
            failure = exchange(&gate, &caller);
            if (failure)
                apologise(token, failure, &reply);
        }
        if (failure == 0 && caller.kind == CAIRN_KIND_PULSE && pulse)
            pulse(self, &caller);
    }
}

// Plain loops, which the compiler must not turn into calls of themselves (-fno-builtin, -fno-tree-loop-distribute-patterns).
void *memcpy(void *restrict to, const void *restrict from, size_t length)
{
    unsigned char *a = to;
    const unsigned char *b = from;
    while (length--)
        *a++ = *b++;
    return to;
}

void *memmove(void *to, const void *from, size_t length)
{
    unsigned char *a = to;
    const unsigned char *b = from;
    if ((uintptr_t)a <= (uintptr_t)b)
        while (length--)
            *a++ = *b++;
    else
        while (length--)
            a[length] = b[length];
    return to;
}

void *memset(void *to, int byte, size_t length)
{
    unsigned char *a = to;
    while (length--)
        *a++ = (unsigned char)byte;
    return to;
}

int memcmp(const void *a, const void *b, size_t length)
{
    const unsigned char *x = a, *y = b;
    for (; length--; x++, y++)
        if (*x != *y)
            return *x < *y ? -1 : 1;
    return 0;
}

size_t strlen(const char *text)
{
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}
