// Random messages through the sample's client to its server and back, on this machine: `cairn_call` here is what the nucleus is there.
#define CAIRN_HOSTED
#include <cairn/sample.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s\n", __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

static uint64_t state = 88172645463325252u;
static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

// The message on its way, and what became of its portals.
static struct cairn_message *on_its_way;
static unsigned closed, kept;
static uint64_t badge = SAMPLE_BADGE_KEEPER;
static int later;

// Its parts as one run of bytes each, however the client cut them.
static char out_run[1 << 17], in_run[1 << 17];
static size_t out_run_length, in_run_length;

static void gather_parts(void)
{
    const struct cairn_message *message = on_its_way;
    const struct cairn_bytes whole = { message->out, message->out_length }, *pieces = message->out_pieces ? message->out : &whole;
    out_run_length = 0;
    for (size_t i = 0; i < (message->out_pieces ? message->out_pieces : 1); i++) {
        CHECK(pieces[i].length <= sizeof out_run - out_run_length);
        if (pieces[i].length)
            memcpy(out_run + out_run_length, pieces[i].bytes, pieces[i].length);
        out_run_length += pieces[i].length;
    }
    in_run_length = message->in_pieces ? cairn_room_of(message->in, message->in_pieces) : message->in_length;
    CHECK(in_run_length <= sizeof in_run);
}

static void scatter_parts(size_t length)
{
    const struct cairn_message *message = on_its_way;
    const struct cairn_room whole = { message->in, message->in_length }, *pieces = message->in_pieces ? message->in : &whole;
    const char *from = in_run;
    for (size_t i = 0; length > 0; i++) {
        size_t some = length < pieces[i].length ? length : pieces[i].length;
        memcpy(pieces[i].bytes, from, some);
        from += some;
        length -= some;
    }
}

int64_t cairn_read(const struct cairn_caller *caller, size_t offset, void *into, size_t length)
{
    (void)caller;
    if (offset >= out_run_length)
        return 0;
    if (length > out_run_length - offset)
        length = out_run_length - offset;
    memcpy(into, out_run + offset, length);
    return (int64_t)length;
}

static size_t written;

int64_t cairn_write(const struct cairn_caller *caller, size_t offset, const void *from, size_t length)
{
    (void)caller;
    CHECK(offset + length <= in_run_length);
    memcpy(in_run + offset, from, length);
    written = offset + length > written ? offset + length : written;
    return (int64_t)length;
}

int64_t cairn_write_pieces(const struct cairn_caller *caller, size_t offset, const struct cairn_bytes *from, size_t pieces)
{
    size_t done = 0;
    for (size_t i = 0; i < pieces; i++)
        if (from[i].length)
            done += (size_t)cairn_write(caller, offset + done, from[i].bytes, from[i].length);
    return (int64_t)done;
}

void cairn_close(cairn_portal portal)
{
    (void)portal;
    closed++;
}

static int64_t count(void *self, const struct cairn_caller *caller, uint8_t a, uint16_t b, uint32_t c, uint64_t d, int32_t e, int64_t f, _Bool g, uint64_t *sum, int32_t *e_again, int64_t *f_again, uint32_t *small_bits, _Bool *right, sample_colour *tint)
{
    (void)self, (void)caller;
    *sum = (uint64_t)a + b + c + d;
    *e_again = e;
    *f_again = f;
    *small_bits = g ? SAMPLE_SMALL_TWO : 0;
    *right = g;
    *tint = g ? SAMPLE_COLOUR_BLUE : SAMPLE_COLOUR_DARK_GREEN;
    return 0;
}

static char copy_of[2 * SAMPLE_TEXT_MAX];

static int64_t echo(void *self, const struct cairn_caller *caller, uint64_t marks, size_t text_length, uint8_t *sum, size_t copy_room, struct cairn_bytes *copy)
{
    (void)self;
    CHECK((marks & ~(SAMPLE_MARKS_BOLD | SAMPLE_MARKS_ITALIC | SAMPLE_MARKS_BLINKING)) == 0);
    CHECK(text_length <= SAMPLE_TEXT_MAX && copy_room <= 2 * SAMPLE_TEXT_MAX);
    if (cairn_read(caller, 0, copy_of, text_length) != (int64_t)text_length)
        return -CAIRN_EFAULT;
    memcpy(copy_of + text_length, copy_of, text_length);
    *sum = 0;
    for (size_t i = 0; i < text_length; i++)
        *sum = (uint8_t)(*sum + (uint8_t)copy_of[i]);
    *copy = (struct cairn_bytes){ copy_of, 2 * text_length };
    return 0;
}

static int64_t move_shape(void *self, const struct cairn_caller *caller, int8_t by, const struct sample_shape *shape, uint8_t *corners, struct sample_shape *moved)
{
    (void)self, (void)caller;
    *moved = *shape;
    moved->best += (uint64_t)(int64_t)by;
    *corners = 6;
    return 0;
}

static int64_t trade(void *self, const struct cairn_caller *caller, uint64_t note, cairn_portal given, uint64_t *got)
{
    (void)self, (void)caller, (void)given;
    if (note == 0)
        return -CAIRN_EINVAL;
    kept++;
    *got = note;
    return 0;
}

static int64_t lend(void *self, const struct cairn_caller *caller, cairn_portal lent, uint64_t *one, uint64_t *other)
{
    (void)self, (void)caller;
    kept += lent != CAIRN_NO_PORTAL;
    *one = 5;
    *other = lent;
    return 0;
}

static int64_t wait_for(void *self, const struct cairn_caller *caller, sample_colour tint, size_t text_room, struct cairn_bytes *text)
{
    (void)self, (void)caller, (void)tint;
    CHECK(text_room <= 16);
    if (later)
        return CAIRN_LATER;
    *text = (struct cairn_bytes){ "now", 3 };
    return 0;
}

// The second half, the first, and all of it.
static int64_t weave(void *self, const struct cairn_caller *caller, uint8_t by, size_t threads_length, uint8_t *sum, size_t cloth_room, struct cairn_bytes cloth[3])
{
    (void)self;
    CHECK(threads_length <= SAMPLE_TEXT_MAX && cloth_room <= 300);
    if (cairn_read(caller, 0, copy_of, threads_length) != (int64_t)threads_length)
        return -CAIRN_EFAULT;
    *sum = by;
    for (size_t i = 0; i < threads_length; i++)
        *sum = (uint8_t)(*sum + (uint8_t)copy_of[i]);
    size_t half = threads_length / 2;
    cloth[0] = (struct cairn_bytes){ copy_of + half, threads_length - half };
    cloth[1] = (struct cairn_bytes){ copy_of, half };
    cloth[2] = (struct cairn_bytes){ copy_of, threads_length };
    return 0;
}

// A structure that came, and one piece.
static int64_t gather(void *self, const struct cairn_caller *caller, const struct sample_point *point, size_t bits_room, struct cairn_bytes bits[2])
{
    (void)self, (void)caller;
    CHECK(bits_room <= 100);
    static struct sample_point kept_point;
    kept_point = *point;
    bits[1] = (struct cairn_bytes){ &kept_point, sizeof kept_point };
    return 0;
}

static int64_t spread(void *self, const struct cairn_caller *caller, size_t text_length, uint32_t *taken)
{
    (void)self, (void)caller;
    CHECK(text_length <= 10);
    *taken = (uint32_t)text_length;
    return 0;
}

static int64_t look(void *self, const struct cairn_caller *caller, size_t picture_length, uint64_t *sum, size_t negative_room, struct cairn_bytes *negative)
{
    (void)self, (void)caller;
    *sum = picture_length;
    // As if a window had filled it.
    negative->length = negative_room + 1;
    return 0;
}

static int64_t give(void *self, const struct cairn_caller *caller, cairn_portal given, uint64_t *most)
{
    (void)self, (void)caller, (void)given;
    kept++;
    *most = 1;
    return 0;
}

// FIRST_TEN, STUDY, TAKE_BACK and NOTHING are missing: ENOSYS.
static const struct sample_server server = {
    .count = count, .echo = echo, .move_shape = move_shape, .trade = trade, .lend = lend, .wait_for = wait_for,
    .weave = weave, .gather = gather, .spread = spread, .look = look, .give = give,
};

// What a lying server answers instead, if there is something.
static const uint64_t *lie;
static unsigned lie_portals;

int64_t cairn_call(cairn_portal to, struct cairn_message *message)
{
    (void)to;
    message->arrived = 0;
    if (lie) {
        memcpy(message->words, lie, sizeof message->words);
        message->arrived = lie_portals;
        return (int64_t)lie[0] < 0 ? (int64_t)lie[0] : 0;
    }
    on_its_way = message;
    gather_parts();
    written = 0;
    struct cairn_caller caller = { .badge = badge, .out_length = out_run_length, .in_length = in_run_length, .portals = message->portals };
    struct cairn_reply reply;
    memcpy(caller.words, message->words, sizeof caller.words);
    if (!sample_dispatch(&server, 0, &caller, &reply))
        return CAIRN_GATE_FAILED(CAIRN_ERROR_TIMED_OUT);
    CHECK(reply.data_length <= in_run_length);
    if (reply.data_length)
        cairn_write(&caller, 0, reply.data, reply.data_length);
    scatter_parts(written);
    memcpy(message->words, reply.words, sizeof reply.words);
    message->arrived = reply.portals;
    return (int64_t)reply.words[0] < 0 ? (int64_t)reply.words[0] : 0;
}

static void one_round(void)
{
    uint8_t a = (uint8_t)draw();
    uint32_t c = (uint32_t)draw();
    uint64_t d = draw() >> 2, sum;
    int32_t e = (int32_t)(uint32_t)draw(), e_again;
    int64_t f = (int64_t)draw(), f_again;
    uint32_t small_bits;
    _Bool g = draw() & 1, right;
    sample_colour tint;
    CHECK(sample_count(1, a, 3, c, d, e, f, g, &sum, &e_again, &f_again, &small_bits, &right, &tint) == 0);
    CHECK(sum == a + UINT64_C(3) + c + d && e_again == e && f_again == f && right == g);
    CHECK(tint == (g ? SAMPLE_COLOUR_BLUE : SAMPLE_COLOUR_DARK_GREEN));

    char text[260], copy[500];
    size_t length = draw() % sizeof text, room = draw() % sizeof copy, copied;
    uint8_t total, right_total = 0;
    for (size_t i = 0; i < length; i++)
        right_total = (uint8_t)(right_total + (uint8_t)(text[i] = (char)draw()));
    uint64_t marks = draw() % 5;
    int64_t result = sample_echo(1, marks, text, length, &total, copy, room, &copied);
    if (length > SAMPLE_TEXT_MAX)
        CHECK(result == -CAIRN_EMSGSIZE);
    else if (marks > 3)
        CHECK(result == -CAIRN_EINVAL);
    else {
        CHECK(result == 0 && total == right_total);
        CHECK(copied == (2 * length < room ? 2 * length : room));
        for (size_t i = 0; i < copied; i++)
            CHECK(copy[i] == text[i % length]);
    }

    struct sample_shape shape = { .best = draw() }, moved;
    shape.corners[2][1].y = e;
    uint8_t corners;
    int8_t by = (int8_t)draw();
    CHECK(sample_move_shape(1, by, &shape, &corners, &moved) == 0);
    CHECK(moved.best == shape.best + (uint64_t)(int64_t)by && moved.corners[2][1].y == e && corners == 6);

    cairn_portal got, one, other;
    uint64_t note = draw() % 3;
    unsigned closed_before = closed, kept_before = kept;
    badge = draw() & 1 ? SAMPLE_BADGE_KEEPER : 1;
    result = sample_trade(1, note, 4, &got);
    CHECK(result == (badge != SAMPLE_BADGE_KEEPER ? -CAIRN_EPERM : note == 0 ? -CAIRN_EINVAL : 0));
    CHECK(closed - closed_before == (result != 0) && kept - kept_before == (result == 0));
    CHECK(sample_lend(1, CAIRN_NO_PORTAL, &one, &other) == 0 && other == CAIRN_NO_PORTAL);
    CHECK(sample_lend(1, 12, &one, &other) == 0 && one == 5 && other == 12);

    later = draw() & 1;
    result = sample_wait_for(1, SAMPLE_COLOUR_RED, copy, room, &copied);
    CHECK(later ? result == CAIRN_GATE_FAILED(CAIRN_ERROR_TIMED_OUT) : room < 3 ? copied == room : copied == 3);
    CHECK(sample_wait_for(1, 3, copy, room, &copied) == -CAIRN_EINVAL);
    uint32_t taken;
    CHECK(sample_first_ten(1, text, length, &taken) == -CAIRN_ENOSYS);
    CHECK(sample_nothing(1) == -CAIRN_ENOSYS);
}

// Parts in pieces: the server sees one run of bytes, the client gets one.
static void pieces_round(void)
{
    char text[260], copy[500];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)draw();
    struct cairn_bytes from[6];
    struct cairn_room into[5];
    size_t count = draw() % 7, rooms = draw() % 6, length = 0, room = 0, copied;
    for (size_t i = 0; i < count; i++) {
        from[i] = (struct cairn_bytes){ text + length, draw() % (sizeof text / 6) };
        length += from[i].length;
    }
    for (size_t i = 0; i < rooms; i++) {
        into[i] = (struct cairn_room){ copy + room, draw() % (sizeof copy / 5) };
        room += into[i].length;
    }
    uint8_t total, right_total = 7;
    for (size_t i = 0; i < length; i++)
        right_total = (uint8_t)(right_total + (uint8_t)text[i]);
    int64_t result = sample_weave(1, 7, from, count, &total, into, rooms, &copied);
    if (count > 4 || rooms > 3)
        CHECK(result == CAIRN_GATE_FAILED(CAIRN_ERROR_BAD_ARGUMENT));
    else if (length > SAMPLE_TEXT_MAX)
        CHECK(result == -CAIRN_EMSGSIZE);
    else {
        size_t least = 2 * length < room ? 2 * length : room, half = length / 2;
        CHECK(result == 0 && total == right_total && copied == (least < 300 ? least : 300));
        for (size_t i = 0; i < copied; i++)
            CHECK(copy[i] == text[i < length - half ? i + half : i < length ? i - (length - half) : i - length]);
    }
    struct sample_point point = { (int32_t)(uint32_t)draw(), 5 };
    if (rooms <= 2) {
        CHECK(sample_gather(1, &point, into, rooms, &copied) == 0 && copied == (room < sizeof point ? room : sizeof point));
        CHECK(memcmp(copy, &point, copied) == 0);
    }
    uint32_t taken;
    CHECK(sample_spread(1, from, count, &taken) == 0 && taken == (length < 10 ? length : 10));
    uint64_t sum;
    CHECK(sample_look(1, text, length, &sum, copy, room, &copied) == 0 && sum == length && copied == room);
    unsigned kept_before = kept;
    CHECK(sample_give(1, 9, &sum) == 0 && kept == kept_before + 1);
}

// Requests that no client makes: the functions check what they were promised, every portal is kept or closed.
static void hostile_round(void)
{
    char out[300] = { 0 }, in[500];
    struct cairn_message message = { .out = out, .out_length = draw() % sizeof out, .in = in, .in_length = draw() % sizeof in, .portals = draw() % 16 };
    for (int i = 0; i < 8; i++)
        message.words[i] = draw() & 1 ? draw() % 10 : draw();
    unsigned portals = message.portals < 4 ? message.portals : 4, before = closed + kept;
    cairn_call(1, &message);
    CHECK(closed + kept - before == portals);
}

// A number is no portal: the nucleus counts what came, whatever the server says. What was not asked for is closed.
static void lies(void)
{
    cairn_portal one, other;
    sample_colour tint;
    const uint64_t numbers[8] = { 0, 5, 2, 3, 4, 5, 6, 3 }, refused[8] = { (uint64_t)-CAIRN_EPERM }, no_colour[8] = { 0, 7 };
    for (unsigned portals = 0; portals <= 4; portals++) {
        lie = numbers;
        lie_portals = portals;
        unsigned before = closed;
        CHECK(sample_lend(1, CAIRN_NO_PORTAL, &one, &other) == (portals == 2 ? 0 : CAIRN_NONSENSE));
        CHECK(closed - before == (portals == 2 ? 0 : portals));
        before = closed;
        CHECK(sample_ask_one(1, &tint, &one) == (portals == 1 ? 0 : CAIRN_NONSENSE));
        CHECK(closed - before == (portals == 1 ? 0 : portals));
        before = closed;
        lie = refused;
        CHECK(sample_trade(1, 1, 4, &one) == -CAIRN_EPERM && closed - before == portals);
        before = closed;
        lie = no_colour;
        CHECK(sample_ask_one(1, &tint, &one) == CAIRN_NONSENSE && closed - before == portals);
    }
    lie = 0;
}

int main(void)
{
    lies();
    for (int i = 0; i < 100000; i++) {
        one_round();
        pieces_round();
        hostile_round();
    }
    printf("100000 rounds\n");
    return 0;
}
