// Every construct of the language, for the compiler's tests.
//
// Generated from sample.idl by ./cairn: change that instead.
#ifndef CAIRN_INTERFACE_SAMPLE
#define CAIRN_INTERFACE_SAMPLE

#include <stddef.h>
#include <stdint.h>
#include <cairn/gate.h>

// As written and as computed.
#define SAMPLE_TEXT_MAX UINT64_C(200)
#define SAMPLE_MODE UINT32_C(0644)
#define SAMPLE_MASK UINT64_C(6)
#define SAMPLE_PAGE_AFTER UINT64_C(4112)
#define SAMPLE_BELOW INT64_C(-3)
#define SAMPLE_BADGE_KEEPER UINT64_C(7)

// Bits.
#define SAMPLE_MARKS_BOLD UINT64_C(1)
#define SAMPLE_MARKS_ITALIC UINT64_C(2)
#define SAMPLE_MARKS_BLINKING UINT64_C(0x8000000000000000)

#define SAMPLE_SMALL_ONE UINT32_C(1)
#define SAMPLE_SMALL_TWO UINT32_C(2)

// One of them.
typedef uint64_t sample_colour;
#define SAMPLE_COLOUR_RED UINT64_C(0)
// Between.
#define SAMPLE_COLOUR_DARK_GREEN UINT64_C(5)
#define SAMPLE_COLOUR_BLUE UINT64_C(0xffffffffffffffff)

struct sample_point {
    int32_t x;
    int32_t y;
};
_Static_assert(sizeof(struct sample_point) == 8, "layout");

// Nested, with arrays in arrays.
struct sample_shape {
    struct sample_point corners[3][2];
    uint8_t name[40];
    uint16_t weights[4];
    uint64_t best;
};
_Static_assert(sizeof(struct sample_shape) == 104, "layout");

#define SAMPLE_COUNT UINT64_C(1)
#define SAMPLE_ECHO UINT64_C(2)
#define SAMPLE_MOVE_SHAPE UINT64_C(3)
#define SAMPLE_FIRST_TEN UINT64_C(4)
#define SAMPLE_TRADE UINT64_C(5)
#define SAMPLE_LEND UINT64_C(6)
#define SAMPLE_WAIT_FOR UINT64_C(7)
#define SAMPLE_ASK_ONE UINT64_C(8)
#define SAMPLE_WEAVE UINT64_C(9)
#define SAMPLE_GATHER UINT64_C(10)
#define SAMPLE_SPREAD UINT64_C(11)
#define SAMPLE_LOOK UINT64_C(12)
#define SAMPLE_STUDY UINT64_C(13)
#define SAMPLE_GIVE UINT64_C(14)
#define SAMPLE_TAKE_BACK UINT64_C(15)
#define SAMPLE_POINT_AT UINT64_C(16)
#define SAMPLE_NOTHING UINT64_C(128)

// Every type of a word.
static inline int64_t sample_count(cairn_portal to, uint8_t a, uint16_t b, uint32_t c, uint64_t d, int32_t e, int64_t f, _Bool g, uint64_t *sum, int32_t *e_again, int64_t *f_again, uint32_t *small_bits, _Bool *right, sample_colour *tint)
{
    struct cairn_message message = {
        .words = { SAMPLE_COUNT, a, b, c, d, (uint64_t)(int64_t)e, (uint64_t)(int64_t)f, g },
    };
    int64_t result = cairn_call_for(to, &message, 0);
    if (result < 0)
        return result;
    if ((int64_t)message.words[1] != (int32_t)(int64_t)message.words[1])
        return CAIRN_NONSENSE;
    if (message.words[3] != (uint32_t)message.words[3])
        return CAIRN_NONSENSE;
    if (message.words[4] > 1)
        return CAIRN_NONSENSE;
    if (message.words[7] != UINT64_C(0) && message.words[7] != UINT64_C(5) && message.words[7] != UINT64_C(18446744073709551615))
        return CAIRN_NONSENSE;
    *sum = message.words[0];
    *e_again = (int32_t)message.words[1];
    *f_again = (int64_t)message.words[2];
    *small_bits = (uint32_t)message.words[3];
    *right = message.words[4] != 0;
    *tint = message.words[7];
    return 0;
}

// Both parts, and a length.
static inline int64_t sample_echo(cairn_portal to, uint64_t marks, const void *text, size_t text_length, uint8_t *sum, void *copy, size_t copy_room, size_t *copy_length)
{
    struct cairn_message message = {
        .words = { SAMPLE_ECHO, marks, 0, 0, 0, 0, 0, 0 },
        .out = text, .out_length = text_length,
        .in = copy, .in_length = copy_room,
    };
    int64_t result = cairn_call_for(to, &message, 0);
    if (result < 0)
        return result;
    if (message.words[1] != (uint8_t)message.words[1])
        return CAIRN_NONSENSE;
    if (message.words[0] > copy_room)
        return CAIRN_NONSENSE;
    *copy_length = message.words[0];
    *sum = (uint8_t)message.words[1];
    return 0;
}

// Structures both ways.
static inline int64_t sample_move_shape(cairn_portal to, int8_t by, const struct sample_shape *shape, uint8_t *corners, struct sample_shape *moved)
{
    struct cairn_message message = {
        .words = { SAMPLE_MOVE_SHAPE, 0, (uint64_t)(int64_t)by, 0, 0, 0, 0, 0 },
        .out = shape, .out_length = sizeof *shape,
        .in = moved, .in_length = sizeof *moved,
    };
    int64_t result = cairn_call_for(to, &message, 0);
    if (result < 0)
        return result;
    if (message.words[1] != (uint8_t)message.words[1])
        return CAIRN_NONSENSE;
    *corners = (uint8_t)message.words[1];
    return 0;
}

static inline int64_t sample_first_ten(cairn_portal to, const void *text, size_t text_length, uint32_t *taken)
{
    struct cairn_message message = {
        .words = { SAMPLE_FIRST_TEN, 0, 0, 0, 0, 0, 0, 0 },
        .out = text, .out_length = text_length,
    };
    int64_t result = cairn_call_for(to, &message, 0);
    if (result < 0)
        return result;
    if (message.words[0] != (uint32_t)message.words[0])
        return CAIRN_NONSENSE;
    *taken = (uint32_t)message.words[0];
    return 0;
}

// A portal each way; needs the keeper's badge.
static inline int64_t sample_trade(cairn_portal to, uint64_t note, cairn_portal given, cairn_portal *got)
{
    struct cairn_message message = {
        .words = { SAMPLE_TRADE, note, 0, 0, 0, 0, 0, given },
        .portals = 1,
        .flags = CAIRN_FLAG_MOVE,
    };
    int64_t result = cairn_call_for(to, &message, 1);
    if (result < 0)
        return result;
    *got = (cairn_portal)message.words[7];
    return 0;
}

static inline int64_t sample_lend(cairn_portal to, cairn_portal lent, cairn_portal *one, cairn_portal *other)
{
    struct cairn_message message = {
        .words = { SAMPLE_LEND, 0, 0, 0, 0, 0, 0, lent },
        .portals = lent != CAIRN_NO_PORTAL,
        .flags = CAIRN_FLAG_PASS_ONCE | CAIRN_FLAG_NOT_FURTHER,
    };
    int64_t result = cairn_call_for(to, &message, 2);
    if (result < 0)
        return result;
    *one = (cairn_portal)message.words[6];
    *other = (cairn_portal)message.words[7];
    return 0;
}

static inline int64_t sample_wait_for(cairn_portal to, sample_colour tint, void *text, size_t text_room, size_t *text_length)
{
    struct cairn_message message = {
        .words = { SAMPLE_WAIT_FOR, tint, 0, 0, 0, 0, 0, 0 },
        .in = text, .in_length = text_room,
        .flags = CAIRN_FLAG_INTERRUPTIBLE,
    };
    int64_t result = cairn_call_for(to, &message, 0);
    if (result < 0)
        return result;
    if (message.words[0] > text_room)
        return CAIRN_NONSENSE;
    *text_length = message.words[0];
    return 0;
}

// A portal beside a word that may mean nothing.
static inline int64_t sample_ask_one(cairn_portal to, sample_colour *tint, cairn_portal *one)
{
    struct cairn_message message = {
        .words = { SAMPLE_ASK_ONE, 0, 0, 0, 0, 0, 0, 0 },
    };
    int64_t result = cairn_call_for(to, &message, 1);
    if (result < 0)
        return result;
    if (message.words[1] != UINT64_C(0) && message.words[1] != UINT64_C(5) && message.words[1] != UINT64_C(18446744073709551615))
        return cairn_nonsense(&message);
    *tint = message.words[1];
    *one = (cairn_portal)message.words[7];
    return 0;
}

// Pieces both ways; one way, beside a structure; of more bytes than count.
static inline int64_t sample_weave(cairn_portal to, uint8_t by, const struct cairn_bytes *threads, size_t threads_pieces, uint8_t *sum, const struct cairn_room *cloth, size_t cloth_pieces, size_t *cloth_length)
{
    if (threads_pieces > 4)
        return CAIRN_GATE_FAILED(CAIRN_ERROR_BAD_ARGUMENT);
    if (cloth_pieces > 3)
        return CAIRN_GATE_FAILED(CAIRN_ERROR_BAD_ARGUMENT);
    struct cairn_message message = {
        .words = { SAMPLE_WEAVE, by, 0, 0, 0, 0, 0, 0 },
        .out = threads, .out_pieces = threads_pieces,
        .in = (void *)cloth, .in_pieces = cloth_pieces,
    };
    int64_t result = cairn_call_for(to, &message, 0);
    if (result < 0)
        return result;
    if (message.words[1] != (uint8_t)message.words[1])
        return CAIRN_NONSENSE;
    if (message.words[0] > cairn_room_of(cloth, cloth_pieces))
        return CAIRN_NONSENSE;
    *cloth_length = message.words[0];
    *sum = (uint8_t)message.words[1];
    return 0;
}

static inline int64_t sample_gather(cairn_portal to, const struct sample_point *point, const struct cairn_room *bits, size_t bits_pieces, size_t *bits_length)
{
    if (bits_pieces > 2)
        return CAIRN_GATE_FAILED(CAIRN_ERROR_BAD_ARGUMENT);
    struct cairn_message message = {
        .words = { SAMPLE_GATHER, 0, 0, 0, 0, 0, 0, 0 },
        .out = point, .out_length = sizeof *point,
        .in = (void *)bits, .in_pieces = bits_pieces,
    };
    int64_t result = cairn_call_for(to, &message, 0);
    if (result < 0)
        return result;
    if (message.words[0] > cairn_room_of(bits, bits_pieces))
        return CAIRN_NONSENSE;
    *bits_length = message.words[0];
    return 0;
}

static inline int64_t sample_spread(cairn_portal to, const struct cairn_bytes *text, size_t text_pieces, uint32_t *taken)
{
    if (text_pieces > 64)
        return CAIRN_GATE_FAILED(CAIRN_ERROR_BAD_ARGUMENT);
    struct cairn_message message = {
        .words = { SAMPLE_SPREAD, 0, 0, 0, 0, 0, 0, 0 },
        .out = text, .out_pieces = text_pieces,
    };
    int64_t result = cairn_call_for(to, &message, 0);
    if (result < 0)
        return result;
    if (message.words[0] != (uint32_t)message.words[0])
        return CAIRN_NONSENSE;
    *taken = (uint32_t)message.words[0];
    return 0;
}

// Seen in place of copied: for the call; kept.
static inline int64_t sample_look(cairn_portal to, const void *picture, size_t picture_length, uint64_t *sum, void *negative, size_t negative_room, size_t *negative_length)
{
    struct cairn_message message = {
        .words = { SAMPLE_LOOK, 0, 0, 0, 0, 0, 0, 0 },
        .out = picture, .out_length = picture_length,
        .in = negative, .in_length = negative_room,
        .flags = CAIRN_FLAG_WINDOWS,
    };
    int64_t result = cairn_call_for(to, &message, 0);
    if (result < 0)
        return result;
    if (message.words[0] > negative_room)
        return CAIRN_NONSENSE;
    *negative_length = message.words[0];
    *sum = message.words[1];
    return 0;
}

static inline int64_t sample_study(cairn_portal to, uint64_t until, const void *picture, size_t picture_length)
{
    struct cairn_message message = {
        .words = { SAMPLE_STUDY, until, 0, 0, 0, 0, 0, 0 },
        .out = picture, .out_length = picture_length,
        .flags = CAIRN_FLAG_INTERRUPTIBLE | CAIRN_FLAG_WINDOWS | CAIRN_FLAG_KEEP,
    };
    int64_t result = cairn_call_for(to, &message, 0);
    if (result < 0)
        return result;
    return 0;
}

// Pages that change hands.
static inline int64_t sample_give(cairn_portal to, cairn_portal given, uint64_t *most)
{
    struct cairn_message message = {
        .words = { SAMPLE_GIVE, 0, 0, 0, 0, 0, 0, given },
        .portals = 1,
    };
    int64_t result = cairn_call_for(to, &message, 0);
    if (result < 0)
        return result;
    *most = message.words[1];
    return 0;
}

static inline int64_t sample_take_back(cairn_portal to, cairn_portal *back)
{
    struct cairn_message message = {
        .words = { SAMPLE_TAKE_BACK, 0, 0, 0, 0, 0, 0, 0 },
    };
    int64_t result = cairn_call_for(to, &message, 1);
    if (result < 0)
        return result;
    *back = (cairn_portal)message.words[7];
    return 0;
}

// A portal of the client's to this server; the server sees its badge.
static inline int64_t sample_point_at(cairn_portal to, uint8_t by, uint64_t marks, cairn_portal at, uint64_t *badge)
{
    struct cairn_message message = {
        .words = { SAMPLE_POINT_AT, by, marks, 0, 0, 0, 0, at },
    };
    int64_t result = cairn_call_for(to, &message, 0);
    if (result < 0)
        return result;
    *badge = message.words[1];
    return 0;
}

static inline int64_t sample_nothing(cairn_portal to)
{
    struct cairn_message message = {
        .words = { SAMPLE_NOTHING, 0, 0, 0, 0, 0, 0, 0 },
    };
    int64_t result = cairn_call_for(to, &message, 0);
    if (result < 0)
        return result;
    return 0;
}

// The server's side: a function for each operation; one that is missing (0) is answered with ENOSYS. A function gets what was checked, fills in the results and returns 0
// or a negative error number; that of a deferred operation may return CAIRN_LATER and answer by the caller's token some time.
// A portal that arrived is the server's own if the function succeeds, and closed otherwise.
struct sample_server {
    // Every type of a word.
    int64_t (*count)(void *self, const struct cairn_caller *caller, uint8_t a, uint16_t b, uint32_t c, uint64_t d, int32_t e, int64_t f, _Bool g, uint64_t *sum, int32_t *e_again, int64_t *f_again, uint32_t *small_bits, _Bool *right, sample_colour *tint);
    // Both parts, and a length.
    int64_t (*echo)(void *self, const struct cairn_caller *caller, uint64_t marks, size_t text_length, uint8_t *sum, size_t copy_room, struct cairn_bytes *copy);
    // Structures both ways.
    int64_t (*move_shape)(void *self, const struct cairn_caller *caller, int8_t by, const struct sample_shape *shape, uint8_t *corners, struct sample_shape *moved);
    int64_t (*first_ten)(void *self, const struct cairn_caller *caller, size_t text_length, uint32_t *taken);
    // A portal each way; needs the keeper's badge.
    int64_t (*trade)(void *self, const struct cairn_caller *caller, uint64_t note, cairn_portal given, uint64_t *got);
    int64_t (*lend)(void *self, const struct cairn_caller *caller, cairn_portal lent, uint64_t *one, uint64_t *other);
    int64_t (*wait_for)(void *self, const struct cairn_caller *caller, sample_colour tint, size_t text_room, struct cairn_bytes *text);
    // A portal beside a word that may mean nothing.
    int64_t (*ask_one)(void *self, const struct cairn_caller *caller, sample_colour *tint, uint64_t *one);
    // Pieces both ways; one way, beside a structure; of more bytes than count.
    int64_t (*weave)(void *self, const struct cairn_caller *caller, uint8_t by, size_t threads_length, uint8_t *sum, size_t cloth_room, struct cairn_bytes cloth[3]);
    int64_t (*gather)(void *self, const struct cairn_caller *caller, const struct sample_point *point, size_t bits_room, struct cairn_bytes bits[2]);
    int64_t (*spread)(void *self, const struct cairn_caller *caller, size_t text_length, uint32_t *taken);
    // Seen in place of copied: for the call; kept.
    int64_t (*look)(void *self, const struct cairn_caller *caller, size_t picture_length, uint64_t *sum, size_t negative_room, struct cairn_bytes *negative);
    int64_t (*study)(void *self, const struct cairn_caller *caller, uint64_t until, size_t picture_length);
    // Pages that change hands.
    int64_t (*give)(void *self, const struct cairn_caller *caller, cairn_portal given, uint64_t *most);
    int64_t (*take_back)(void *self, const struct cairn_caller *caller, uint64_t *back);
    // A portal of the client's to this server; the server sees its badge.
    int64_t (*point_at)(void *self, const struct cairn_caller *caller, uint8_t by, uint64_t marks, uint64_t at, uint64_t *badge);
    int64_t (*nothing)(void *self, const struct cairn_caller *caller);
};

static inline void sample_count_reply(struct cairn_reply *reply, uint64_t sum, int32_t e_again, int64_t f_again, uint32_t small_bits, _Bool right, sample_colour tint)
{
    *reply = (struct cairn_reply){
        .words = { cairn_result(sum), (uint64_t)(int64_t)e_again, (uint64_t)(int64_t)f_again, small_bits, right, 0, 0, tint },
    };
}

static inline int64_t sample_serve_count(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->count)
        return -CAIRN_ENOSYS;
    if (caller->portals != 0)
        return -CAIRN_EINVAL;
    if (caller->out_length != 0)
        return -CAIRN_EINVAL;
    if (caller->in_length != 0)
        return -CAIRN_EINVAL;
    if (caller->words[1] != (uint8_t)caller->words[1])
        return -CAIRN_EINVAL;
    if (caller->words[2] != (uint16_t)caller->words[2])
        return -CAIRN_EINVAL;
    if (caller->words[3] != (uint32_t)caller->words[3])
        return -CAIRN_EINVAL;
    if ((int64_t)caller->words[5] != (int32_t)(int64_t)caller->words[5])
        return -CAIRN_EINVAL;
    if (caller->words[7] > 1)
        return -CAIRN_EINVAL;
    uint64_t sum = 0;
    int32_t e_again = 0;
    int64_t f_again = 0;
    uint32_t small_bits = 0;
    _Bool right = 0;
    sample_colour tint = 0;
    int64_t done = server->count(self, caller, (uint8_t)caller->words[1], (uint16_t)caller->words[2], (uint32_t)caller->words[3], caller->words[4], (int32_t)caller->words[5], (int64_t)caller->words[6], caller->words[7] != 0, &sum, &e_again, &f_again, &small_bits, &right, &tint);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    sample_count_reply(reply, sum, e_again, f_again, small_bits, right, tint);
    return 0;
}

static inline void sample_echo_reply(struct cairn_reply *reply, uint8_t sum, struct cairn_bytes copy)
{
    *reply = (struct cairn_reply){
        .words = { copy.length, sum, 0, 0, 0, 0, 0, 0 },
        .data = copy.bytes, .data_length = copy.length,
    };
}

static inline int64_t sample_serve_echo(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->echo)
        return -CAIRN_ENOSYS;
    if (caller->portals != 0)
        return -CAIRN_EINVAL;
    if (caller->out_length > 200)
        return -CAIRN_EMSGSIZE;
    if ((caller->words[1] & ~UINT64_C(0x8000000000000003)) != 0)
        return -CAIRN_EINVAL;
    size_t text_length = caller->out_length;
    uint8_t sum = 0;
    size_t copy_room = caller->in_length < 400 ? caller->in_length : 400;
    struct cairn_bytes copy = { 0, 0 };
    int64_t done = server->echo(self, caller, (uint64_t)caller->words[1], text_length, &sum, copy_room, &copy);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    if (copy.length > copy_room)
        copy.length = copy_room;
    sample_echo_reply(reply, sum, copy);
    return 0;
}

static inline void sample_move_shape_reply(struct cairn_reply *reply, uint8_t corners)
{
    *reply = (struct cairn_reply){
        .words = { 0, corners, 0, 0, 0, 0, 0, 0 },
    };
}

static inline int64_t sample_serve_move_shape(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->move_shape)
        return -CAIRN_ENOSYS;
    if (caller->portals != 0)
        return -CAIRN_EINVAL;
    if (caller->out_length != sizeof(struct sample_shape))
        return -CAIRN_EINVAL;
    if (caller->in_length < sizeof(struct sample_shape))
        return -CAIRN_EINVAL;
    if ((int64_t)caller->words[2] != (int8_t)(int64_t)caller->words[2])
        return -CAIRN_EINVAL;
    struct sample_shape shape;
    if (cairn_read(caller, 0, &shape, sizeof shape) != (int64_t)sizeof shape)
        return -CAIRN_EFAULT;
    uint8_t corners = 0;
    struct sample_shape moved = { 0 };
    int64_t done = server->move_shape(self, caller, (int8_t)caller->words[2], &shape, &corners, &moved);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    if (cairn_write(caller, 0, &moved, sizeof moved) != (int64_t)sizeof moved)
        return -CAIRN_EFAULT;
    sample_move_shape_reply(reply, corners);
    return 0;
}

static inline void sample_first_ten_reply(struct cairn_reply *reply, uint32_t taken)
{
    *reply = (struct cairn_reply){
        .words = { cairn_result(taken), 0, 0, 0, 0, 0, 0, 0 },
    };
}

static inline int64_t sample_serve_first_ten(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->first_ten)
        return -CAIRN_ENOSYS;
    if (caller->portals != 0)
        return -CAIRN_EINVAL;
    if (caller->in_length != 0)
        return -CAIRN_EINVAL;
    size_t text_length = caller->out_length;
    if (text_length > 10)
        text_length = 10;
    uint32_t taken = 0;
    int64_t done = server->first_ten(self, caller, text_length, &taken);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    sample_first_ten_reply(reply, taken);
    return 0;
}

static inline void sample_trade_reply(struct cairn_reply *reply, uint64_t got)
{
    *reply = (struct cairn_reply){
        .words = { 0, 0, 0, 0, 0, 0, 0, got },
        .portals = 1,
        .flags = CAIRN_FLAG_MINT,
    };
}

static inline int64_t sample_serve_trade(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->trade)
        return -CAIRN_ENOSYS;
    if (caller->badge != UINT64_C(7))
        return -CAIRN_EPERM;
    if (caller->portals != 1)
        return -CAIRN_EINVAL;
    if (caller->out_length != 0)
        return -CAIRN_EINVAL;
    if (caller->in_length != 0)
        return -CAIRN_EINVAL;
    uint64_t got = 0;
    int64_t done = server->trade(self, caller, caller->words[1], (cairn_portal)caller->words[7], &got);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    sample_trade_reply(reply, got);
    return 0;
}

static inline void sample_lend_reply(struct cairn_reply *reply, uint64_t one, uint64_t other)
{
    *reply = (struct cairn_reply){
        .words = { 0, 0, 0, 0, 0, 0, one, other },
        .portals = 2,
    };
}

static inline int64_t sample_serve_lend(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->lend)
        return -CAIRN_ENOSYS;
    if (caller->portals > 1)
        return -CAIRN_EINVAL;
    if (caller->out_length != 0)
        return -CAIRN_EINVAL;
    if (caller->in_length != 0)
        return -CAIRN_EINVAL;
    uint64_t one = 0;
    uint64_t other = 0;
    int64_t done = server->lend(self, caller, caller->portals > 0 ? (cairn_portal)caller->words[7] : CAIRN_NO_PORTAL, &one, &other);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    sample_lend_reply(reply, one, other);
    return 0;
}

static inline void sample_wait_for_reply(struct cairn_reply *reply, struct cairn_bytes text)
{
    *reply = (struct cairn_reply){
        .words = { text.length, 0, 0, 0, 0, 0, 0, 0 },
        .data = text.bytes, .data_length = text.length,
    };
}

static inline int64_t sample_serve_wait_for(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->wait_for)
        return -CAIRN_ENOSYS;
    if (caller->portals != 0)
        return -CAIRN_EINVAL;
    if (caller->out_length != 0)
        return -CAIRN_EINVAL;
    if (caller->words[1] != UINT64_C(0) && caller->words[1] != UINT64_C(5) && caller->words[1] != UINT64_C(18446744073709551615))
        return -CAIRN_EINVAL;
    size_t text_room = caller->in_length < 16 ? caller->in_length : 16;
    struct cairn_bytes text = { 0, 0 };
    int64_t done = server->wait_for(self, caller, caller->words[1], text_room, &text);
    if (done == CAIRN_LATER)
        return done;
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    if (text.length > text_room)
        text.length = text_room;
    sample_wait_for_reply(reply, text);
    return 0;
}

static inline void sample_ask_one_reply(struct cairn_reply *reply, sample_colour tint, uint64_t one)
{
    *reply = (struct cairn_reply){
        .words = { 0, tint, 0, 0, 0, 0, 0, one },
        .portals = 1,
        .flags = CAIRN_FLAG_MOVE,
    };
}

static inline int64_t sample_serve_ask_one(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->ask_one)
        return -CAIRN_ENOSYS;
    if (caller->portals != 0)
        return -CAIRN_EINVAL;
    if (caller->out_length != 0)
        return -CAIRN_EINVAL;
    if (caller->in_length != 0)
        return -CAIRN_EINVAL;
    sample_colour tint = 0;
    uint64_t one = 0;
    int64_t done = server->ask_one(self, caller, &tint, &one);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    sample_ask_one_reply(reply, tint, one);
    return 0;
}

static inline void sample_weave_reply(struct cairn_reply *reply, uint8_t sum, size_t cloth_length)
{
    *reply = (struct cairn_reply){
        .words = { cloth_length, sum, 0, 0, 0, 0, 0, 0 },
    };
}

static inline int64_t sample_serve_weave(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->weave)
        return -CAIRN_ENOSYS;
    if (caller->portals != 0)
        return -CAIRN_EINVAL;
    if (caller->out_length > 200)
        return -CAIRN_EMSGSIZE;
    if (caller->words[1] != (uint8_t)caller->words[1])
        return -CAIRN_EINVAL;
    size_t threads_length = caller->out_length;
    uint8_t sum = 0;
    size_t cloth_room = caller->in_length < 300 ? caller->in_length : 300;
    struct cairn_bytes cloth[3] = { { 0, 0 } };
    int64_t done = server->weave(self, caller, (uint8_t)caller->words[1], threads_length, &sum, cloth_room, cloth);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    int64_t cloth_length = cairn_deliver(caller, cloth, 3, cloth_room);
    if (cloth_length < 0)
        return -CAIRN_EFAULT;
    sample_weave_reply(reply, sum, (size_t)cloth_length);
    return 0;
}

static inline void sample_gather_reply(struct cairn_reply *reply, size_t bits_length)
{
    *reply = (struct cairn_reply){
        .words = { bits_length, 0, 0, 0, 0, 0, 0, 0 },
    };
}

static inline int64_t sample_serve_gather(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->gather)
        return -CAIRN_ENOSYS;
    if (caller->portals != 0)
        return -CAIRN_EINVAL;
    if (caller->out_length != sizeof(struct sample_point))
        return -CAIRN_EINVAL;
    struct sample_point point;
    if (cairn_read(caller, 0, &point, sizeof point) != (int64_t)sizeof point)
        return -CAIRN_EFAULT;
    size_t bits_room = caller->in_length < 100 ? caller->in_length : 100;
    struct cairn_bytes bits[2] = { { 0, 0 } };
    int64_t done = server->gather(self, caller, &point, bits_room, bits);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    int64_t bits_length = cairn_deliver(caller, bits, 2, bits_room);
    if (bits_length < 0)
        return -CAIRN_EFAULT;
    sample_gather_reply(reply, (size_t)bits_length);
    return 0;
}

static inline void sample_spread_reply(struct cairn_reply *reply, uint32_t taken)
{
    *reply = (struct cairn_reply){
        .words = { cairn_result(taken), 0, 0, 0, 0, 0, 0, 0 },
    };
}

static inline int64_t sample_serve_spread(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->spread)
        return -CAIRN_ENOSYS;
    if (caller->portals != 0)
        return -CAIRN_EINVAL;
    if (caller->in_length != 0)
        return -CAIRN_EINVAL;
    size_t text_length = caller->out_length;
    if (text_length > 10)
        text_length = 10;
    uint32_t taken = 0;
    int64_t done = server->spread(self, caller, text_length, &taken);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    sample_spread_reply(reply, taken);
    return 0;
}

static inline void sample_look_reply(struct cairn_reply *reply, uint64_t sum, struct cairn_bytes negative)
{
    *reply = (struct cairn_reply){
        .words = { negative.length, sum, 0, 0, 0, 0, 0, 0 },
        .data = negative.bytes, .data_length = negative.bytes ? negative.length : 0,
    };
}

static inline int64_t sample_serve_look(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->look)
        return -CAIRN_ENOSYS;
    if (caller->portals != 0)
        return -CAIRN_EINVAL;
    if (caller->out_length > 65536)
        return -CAIRN_EMSGSIZE;
    size_t picture_length = caller->out_length;
    uint64_t sum = 0;
    size_t negative_room = caller->in_length < 65536 ? caller->in_length : 65536;
    struct cairn_bytes negative = { 0, 0 };
    int64_t done = server->look(self, caller, picture_length, &sum, negative_room, &negative);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    if (negative.length > negative_room)
        negative.length = negative_room;
    sample_look_reply(reply, sum, negative);
    return 0;
}

static inline void sample_study_reply(struct cairn_reply *reply)
{
    *reply = (struct cairn_reply){
        .words = { 0, 0, 0, 0, 0, 0, 0, 0 },
    };
}

static inline int64_t sample_serve_study(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->study)
        return -CAIRN_ENOSYS;
    if (caller->portals != 0)
        return -CAIRN_EINVAL;
    if (caller->out_length > 8192)
        return -CAIRN_EMSGSIZE;
    if (caller->in_length != 0)
        return -CAIRN_EINVAL;
    size_t picture_length = caller->out_length;
    int64_t done = server->study(self, caller, caller->words[1], picture_length);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    sample_study_reply(reply);
    return 0;
}

static inline void sample_give_reply(struct cairn_reply *reply, uint64_t most)
{
    *reply = (struct cairn_reply){
        .words = { 0, most, 0, 0, 0, 0, 0, 0 },
    };
}

static inline int64_t sample_serve_give(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->give)
        return -CAIRN_ENOSYS;
    if (caller->portals != 1)
        return -CAIRN_EINVAL;
    if (caller->out_length != 0)
        return -CAIRN_EINVAL;
    if (caller->in_length != 0)
        return -CAIRN_EINVAL;
    uint64_t most = 0;
    int64_t done = server->give(self, caller, (cairn_portal)caller->words[7], &most);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    sample_give_reply(reply, most);
    return 0;
}

static inline void sample_take_back_reply(struct cairn_reply *reply, uint64_t back)
{
    *reply = (struct cairn_reply){
        .words = { 0, 0, 0, 0, 0, 0, 0, back },
        .portals = 1,
        .flags = CAIRN_FLAG_MOVE,
    };
}

static inline int64_t sample_serve_take_back(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->take_back)
        return -CAIRN_ENOSYS;
    if (caller->portals != 0)
        return -CAIRN_EINVAL;
    if (caller->out_length != 0)
        return -CAIRN_EINVAL;
    if (caller->in_length != 0)
        return -CAIRN_EINVAL;
    uint64_t back = 0;
    int64_t done = server->take_back(self, caller, &back);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    sample_take_back_reply(reply, back);
    return 0;
}

static inline void sample_point_at_reply(struct cairn_reply *reply, uint64_t badge)
{
    *reply = (struct cairn_reply){
        .words = { 0, badge, 0, 0, 0, 0, 0, 0 },
    };
}

static inline int64_t sample_serve_point_at(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->point_at)
        return -CAIRN_ENOSYS;
    if (caller->portals != 0)
        return -CAIRN_EINVAL;
    if (caller->out_length != 0)
        return -CAIRN_EINVAL;
    if (caller->in_length != 0)
        return -CAIRN_EINVAL;
    if (!caller->is_signed)
        return -CAIRN_ENOSYS;
    if (caller->words[1] != (uint8_t)caller->words[1])
        return -CAIRN_EINVAL;
    if ((caller->words[2] & ~UINT64_C(0x8000000000000003)) != 0)
        return -CAIRN_EINVAL;
    uint64_t badge = 0;
    int64_t done = server->point_at(self, caller, (uint8_t)caller->words[1], (uint64_t)caller->words[2], caller->words[7], &badge);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    sample_point_at_reply(reply, badge);
    return 0;
}

static inline void sample_nothing_reply(struct cairn_reply *reply)
{
    *reply = (struct cairn_reply){
        .words = { 0, 0, 0, 0, 0, 0, 0, 0 },
    };
}

static inline int64_t sample_serve_nothing(const struct sample_server *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    if (!server->nothing)
        return -CAIRN_ENOSYS;
    if (caller->portals != 0)
        return -CAIRN_EINVAL;
    if (caller->out_length != 0)
        return -CAIRN_EINVAL;
    if (caller->in_length != 0)
        return -CAIRN_EINVAL;
    int64_t done = server->nothing(self, caller);
    if (done != 0)
        return done < 0 ? done : -CAIRN_EIO;
    sample_nothing_reply(reply);
    return 0;
}

// Decode a request, let the server do it, encode the answer: true if there is a reply to send now. What has not the operation's shape is refused; portals that nobody took are closed.
static inline _Bool sample_dispatch(const void *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)
{
    const struct sample_server *functions = server;
    int64_t done = -CAIRN_ENOSYS;
    unsigned asked = 0;
    switch (caller->words[0]) {
    case SAMPLE_COUNT:
        done = sample_serve_count(functions, self, caller, reply);
        break;
    case SAMPLE_ECHO:
        done = sample_serve_echo(functions, self, caller, reply);
        break;
    case SAMPLE_MOVE_SHAPE:
        done = sample_serve_move_shape(functions, self, caller, reply);
        break;
    case SAMPLE_FIRST_TEN:
        done = sample_serve_first_ten(functions, self, caller, reply);
        break;
    case SAMPLE_TRADE:
        done = sample_serve_trade(functions, self, caller, reply);
        asked = 1;
        break;
    case SAMPLE_LEND:
        done = sample_serve_lend(functions, self, caller, reply);
        asked = 1;
        break;
    case SAMPLE_WAIT_FOR:
        done = sample_serve_wait_for(functions, self, caller, reply);
        break;
    case SAMPLE_ASK_ONE:
        done = sample_serve_ask_one(functions, self, caller, reply);
        break;
    case SAMPLE_WEAVE:
        done = sample_serve_weave(functions, self, caller, reply);
        break;
    case SAMPLE_GATHER:
        done = sample_serve_gather(functions, self, caller, reply);
        break;
    case SAMPLE_SPREAD:
        done = sample_serve_spread(functions, self, caller, reply);
        break;
    case SAMPLE_LOOK:
        done = sample_serve_look(functions, self, caller, reply);
        break;
    case SAMPLE_STUDY:
        done = sample_serve_study(functions, self, caller, reply);
        break;
    case SAMPLE_GIVE:
        done = sample_serve_give(functions, self, caller, reply);
        asked = 1;
        break;
    case SAMPLE_TAKE_BACK:
        done = sample_serve_take_back(functions, self, caller, reply);
        break;
    case SAMPLE_POINT_AT:
        done = sample_serve_point_at(functions, self, caller, reply);
        break;
    case SAMPLE_NOTHING:
        done = sample_serve_nothing(functions, self, caller, reply);
        break;
    }
    return cairn_finish(caller, done, asked, reply);
}

// What the nucleus is to ask of each operation's calls.
static const struct cairn_signature sample_signature = {
    .switched = 1,
    .count = 4,
    .lines = (const uint64_t[][8]){
        { UINT64_C(0x1), UINT64_C(0xff), UINT64_C(0xffff), UINT64_C(0xffffffff), UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_C(0x1) },
        { UINT64_C(0x2), UINT64_C(0x8000000000000003), UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX },
        { UINT64_C(0x9), UINT64_C(0xff), UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX },
        { UINT64_C(0x100000010), UINT64_C(0xff), UINT64_C(0x8000000000000003), UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX },
    },
};

#endif
