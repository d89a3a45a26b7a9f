// The gate for C: messages, the call that generated client stubs make, and what generated dispatchers need of a blocked caller. The registers are those of `cairn-abi`.
//
// With CAIRN_HOSTED defined there is no gate here: `cairn_call` is then a function of the program's own (tests on another system).
#ifndef CAIRN_GATE_H
#define CAIRN_GATE_H

#include <stddef.h>
#include <stdint.h>
#include <cairn/abi.h>
#include <cairn/errno.h>

// A slot of this domain's portal table.
typedef uint32_t cairn_portal;
#define CAIRN_NO_PORTAL UINT32_MAX

// What a stub returns: 0, a server's negative error number, or one of these.
#define CAIRN_GATE_FAILED(code) (INT64_C(-4096) - (int64_t)((code) & 255))
// The answer does not keep to the interface.
#define CAIRN_NONSENSE INT64_C(-4352)
// What a server's function returns when the answer comes later.
#define CAIRN_LATER INT64_C(1)

// Bytes somewhere; a piece of what goes out. (As `Part` of cairn-abi.)
struct cairn_bytes {
    const void *bytes;
    size_t length;
};
// Room somewhere; a piece of where something comes in.
struct cairn_room {
    void *bytes;
    size_t length;
};
_Static_assert(sizeof(struct cairn_bytes) == 16 && sizeof(struct cairn_room) == 16, "as in cairn-abi");

// A message to send. Parts are lent for the length of the call.
struct cairn_message {
    uint64_t words[8];
    const void *out;
    size_t out_length;
    void *in;
    size_t in_length;
    // If not 0: `out` (`in`) leads to so many struct cairn_bytes (cairn_room), and its length is not looked at.
    size_t out_pieces, in_pieces;
    // How many of the last words are portals to pass.
    unsigned portals;
    uint64_t flags;
    // After the call: how many of the last words are portals of the own table now. The nucleus counts them; everything else is a number, whatever the server calls it.
    unsigned arrived;
};

// All registers that take part in a traversal.
struct cairn_gate {
    uint64_t rax, words[8], rbx, rbp, r14, r15;
};

// Traverse a portal with all registers (runtime.c).
void cairn_traverse(struct cairn_gate *gate);

// Index, operation and flags as rax wants them.
static inline uint64_t cairn_selector(cairn_portal slot, uint64_t operation, uint64_t flags)
{
    return slot | operation << 32 | flags;
}

#ifdef CAIRN_HOSTED
int64_t cairn_call(cairn_portal to, struct cairn_message *message);
#else
// Traverse a portal with words only; they become those of the answer. Returns rax.
static inline uint64_t cairn_traverse_words(uint64_t selector, uint64_t words[8])
{
    register uint64_t w0 __asm__("rdi") = words[0];
    register uint64_t w1 __asm__("rsi") = words[1];
    register uint64_t w2 __asm__("rdx") = words[2];
    register uint64_t w3 __asm__("r10") = words[3];
    register uint64_t w4 __asm__("r8") = words[4];
    register uint64_t w5 __asm__("r9") = words[5];
    register uint64_t w6 __asm__("r12") = words[6];
    register uint64_t w7 __asm__("r13") = words[7];
    register uint64_t rax __asm__("rax") = selector;
    __asm__ volatile("syscall"
                     : "+r"(rax), "+r"(w0), "+r"(w1), "+r"(w2), "+r"(w3), "+r"(w4), "+r"(w5), "+r"(w6), "+r"(w7)
                     :
                     : "rcx", "r11", "memory", "cc");
    words[0] = w0;
    words[1] = w1;
    words[2] = w2;
    words[3] = w3;
    words[4] = w4;
    words[5] = w5;
    words[6] = w6;
    words[7] = w7;
    return rax;
}

// Send and wait for the reply, whose words are in the message then. A stub calls cairn_call_for.
static inline int64_t cairn_call(cairn_portal to, struct cairn_message *message)
{
    uint64_t selector = cairn_selector(to, CAIRN_OP_CALL, message->flags | (uint64_t)message->portals << CAIRN_PORTALS_SHIFT);
    uint64_t rax;
    if ((message->out_length | message->in_length | message->out_pieces | message->in_pieces) == 0) {
        rax = cairn_traverse_words(selector, message->words);
    } else {
        if (message->out_pieces)
            selector |= CAIRN_FLAG_OUT_VECTOR;
        if (message->in_pieces)
            selector |= CAIRN_FLAG_IN_VECTOR;
        struct cairn_gate gate = {
            .rax = selector | CAIRN_FLAG_PARTS,
            .rbx = (uint64_t)message->in,
            .rbp = message->in_pieces ? message->in_pieces : message->in_length,
            .r14 = (uint64_t)message->out,
            .r15 = message->out_pieces ? message->out_pieces : message->out_length,
        };
        for (int i = 0; i < 8; i++)
            gate.words[i] = message->words[i];
        cairn_traverse(&gate);
        for (int i = 0; i < 8; i++)
            message->words[i] = gate.words[i];
        rax = gate.rax;
    }
    message->arrived = 0;
    if (rax & 255)
        return CAIRN_GATE_FAILED(rax);
    message->arrived = rax >> CAIRN_RECEIVED_PORTALS_SHIFT & 15;
    return (int64_t)message->words[0] < 0 ? (int64_t)message->words[0] : 0;
}
#endif

// A caller that waits for its answer, or a pulse, as a receive delivers it.
struct cairn_caller {
    uint64_t words[8];
    uint64_t badge;
    // The blocked caller (0 for pulses).
    uint64_t token;
    uint64_t label;
    size_t out_length, in_length;
    // How many of the last words are portals that arrived.
    unsigned portals;
    // CAIRN_KIND_MESSAGE or CAIRN_KIND_PULSE.
    unsigned kind;
    // The caller's domain.
    uint32_t sender;
    cairn_portal receiver;
    // The nucleus asked what the interface's signature says.
    _Bool is_signed;
};

// What the nucleus is to ask of an interface's calls, a line for each operation that has something to ask; and whether one wants the server to have registers of its own.
struct cairn_signature {
    _Bool switched;
    size_t count;
    const uint64_t (*lines)[8];
};

// An answer as it travels; data is for the beginning of the caller's in part.
struct cairn_reply {
    uint64_t words[8];
    const void *data;
    size_t data_length;
    unsigned portals;
    uint64_t flags;
};

// Close a portal of the own table (runtime.c).
void cairn_close(cairn_portal portal);

// An answer that means nothing: what came with it is closed, kept it would fill the own table.
static inline int64_t cairn_nonsense(struct cairn_message *message)
{
    unsigned arrived = message->arrived < CAIRN_MAX_PORTALS ? message->arrived : (unsigned)CAIRN_MAX_PORTALS;
    for (unsigned i = 8 - arrived; i < 8; i++)
        cairn_close((cairn_portal)message->words[i]);
    message->arrived = 0;
    return CAIRN_NONSENSE;
}

// Call for an answer with so many portals; with others it is nonsense.
static inline int64_t cairn_call_for(cairn_portal to, struct cairn_message *message, unsigned portals)
{
    int64_t result = cairn_call(to, message);
    if (result == 0 && message->arrived == portals)
        return 0;
    int64_t nonsense = cairn_nonsense(message);
    return result < 0 ? result : nonsense;
}

// Copy from the caller's out part, into its in part (runtime.c): bytes copied, short only at the part's end, or negative.
int64_t cairn_read(const struct cairn_caller *caller, size_t offset, void *into, size_t length);
int64_t cairn_write(const struct cairn_caller *caller, size_t offset, const void *from, size_t length);
// The same from and into several pieces, one behind the other, with one entry of the nucleus.
int64_t cairn_read_pieces(const struct cairn_caller *caller, size_t offset, const struct cairn_room *into, size_t pieces);
int64_t cairn_write_pieces(const struct cairn_caller *caller, size_t offset, const struct cairn_bytes *from, size_t pieces);

// Bytes that there is room for in all pieces together.
static inline size_t cairn_room_of(const struct cairn_room *pieces, size_t count)
{
    size_t room = 0;
    for (size_t i = 0; i < count; i++)
        room += pieces[i].length;
    return room;
}

// Pieces into the beginning of the caller's in part, at most `room` bytes (the pieces are cut to that): how many, or negative.
static inline int64_t cairn_deliver(const struct cairn_caller *caller, struct cairn_bytes *pieces, size_t count, size_t room)
{
    int64_t length = 0;
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].length > room)
            pieces[i].length = room;
        room -= pieces[i].length;
        length += (int64_t)pieces[i].length;
    }
    if (length == 0)
        return 0;
    return cairn_write_pieces(caller, 0, pieces, count) == length ? length : -CAIRN_EFAULT;
}

// A result word: what would look like an error is one.
static inline uint64_t cairn_result(uint64_t value)
{
    return (int64_t)value < 0 ? (uint64_t)-CAIRN_EOVERFLOW : value;
}

// The end of every dispatch: portals that nobody took are closed (`asked` of them belong to the operation), an error becomes the answer. True if there is a reply to send.
static inline _Bool cairn_finish(const struct cairn_caller *caller, int64_t done, unsigned asked, struct cairn_reply *reply)
{
    unsigned arrived = caller->portals < CAIRN_MAX_PORTALS ? caller->portals : (unsigned)CAIRN_MAX_PORTALS;
    unsigned kept = done < 0 ? 0 : asked < arrived ? asked : arrived;
    for (unsigned i = 8 - arrived; i < 8 - kept; i++)
        cairn_close((cairn_portal)caller->words[i]);
    if (done < 0)
        *reply = (struct cairn_reply){ .words = { (uint64_t)done } };
    return done != CAIRN_LATER;
}

#endif
