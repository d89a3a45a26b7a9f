// A client of the notice board in C: does what can be done with a board, checks every answer, and says in the log how it went.

#include <cairn/board.h>
#include <cairn/pages.h>
#include <cairn/runtime.h>

static int failures;

static void check(_Bool right, const char *what)
{
    if (right)
        return;
    failures++;
    cairn_log(what);
}

// Notes whose lines lie in several places, and room that does.
static void pieces(cairn_portal board)
{
    uint32_t notes;
    size_t length;
    struct cairn_bytes lines[9] = { { "milk ", 5 }, { "", 0 }, { "and ", 4 }, { "bread", 5 } };
    check(board_clear(board) == 0, "clear before the lines");
    check(board_pin_lines(board, 3, BOARD_COLOUR_WHITE, lines, 4, &notes) == 0 && notes == 1, "pin lines");
    check(board_pin(board, 0, BOARD_COLOUR_RED, "first, ", 7, &notes) == 0 && notes == 2, "pin one");
    char start[3], middle[9], end[50];
    const struct cairn_room room[3] = { { start, sizeof start }, { middle, sizeof middle }, { end, sizeof end } };
    check(board_read_all(board, &notes, room, 3, &length) == 0 && notes == 2 && length == 21, "read all");
    check(memcmp(start, "fir", 3) == 0 && memcmp(middle, "st, milk ", 9) == 0 && memcmp(end, "and bread", 9) == 0, "what was read of all");
    check(board_read_all(board, &notes, room, 1, &length) == 0 && length == 3, "too little room");
    check(board_pin_lines(board, 3, BOARD_COLOUR_WHITE, lines, 9, &notes) == CAIRN_GATE_FAILED(CAIRN_ERROR_BAD_ARGUMENT), "too many lines");
}

// Portals that stand for places.
static void places(cairn_portal board, cairn_portal other)
{
    uint32_t notes;
    board_colour colour;
    char note[BOARD_NOTE_MAX];
    size_t length;
    cairn_portal opened = CAIRN_NO_PORTAL;
    check(board_open(board, 3, &opened) == 0, "open a place");
    // Often enough that the portal has code of its own.
    for (uint32_t i = 0; i < 100; i++) {
        check(board_copy(board, 4 + i % 2, opened, &notes) == 0, "copy a note");
        check(board_read(board, 4 + i % 2, &colour, note, sizeof note, &length) == 0 && length == 14 && memcmp(note, "milk and bread", 14) == 0, "what was copied");
    }
    check(board_copy(board, 4, 1000 + 3, &notes) == CAIRN_GATE_FAILED(CAIRN_ERROR_BAD_PORTAL), "a made-up badge");
    check(board_copy(board, 4, other, &notes) == CAIRN_GATE_FAILED(CAIRN_ERROR_BAD_PORTAL), "another board");
    check(board_copy(board, 4, board, &notes) == -CAIRN_EINVAL, "a portal that stands for no place");
    cairn_close(opened);
    check(board_copy(board, 4, opened, &notes) == CAIRN_GATE_FAILED(CAIRN_ERROR_BAD_PORTAL), "closed");
}

static uint64_t poster[BOARD_POSTER_MAX / 8] __attribute__((aligned(4096)));

// A poster that the board looks at where it lies, and one that goes over to it.
static void posters(cairn_portal board)
{
    size_t words = sizeof poster / 8;
    uint64_t sum = 0, found;
    for (size_t i = 0; i < words; i++)
        sum += poster[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    _Bool seen;
    check(board_survey(board, poster, sizeof poster, &found, &seen) == 0 && found == sum && seen, "survey");
    check(board_survey(board, poster + 1, sizeof poster - 8, &found, &seen) == 0 && found == sum && !seen, "survey of what lies across pages");
    check(board_survey(board, poster, 5000, &found, &seen) == 0 && seen, "survey of a page and a bit");

    cairn_portal offer;
    check(cairn_pages_offer(poster, sizeof poster, VM_GIVING_MOVE, 0, &offer) == 0, "give");
    check(poster[1] == 0, "given away");
    check(board_hang(board, offer, &found) == 0 && found == sum, "hang");
    check(board_hang(board, offer, &found) == -CAIRN_EBUSY, "hang it twice");
    cairn_close(offer);
    void *taken = 0;
    size_t length = 0;
    check(board_take_down(board, &offer) == 0, "take down");
    check(cairn_pages_take(offer, BOARD_POSTER_MAX, &taken, &length) == 0 && length == sizeof poster, "take");
    const uint64_t *back = taken;
    for (size_t i = 0; back && i < words; i++)
        sum -= back[i];
    check(back && sum == 0, "what came back");
    cairn_pages_drop(taken, length);
    check(board_take_down(board, &offer) == -CAIRN_ENOENT, "take down nothing");
    check(board_hang(board, board, &found) == -CAIRN_EIO, "hang what is no poster");
}

int main(void)
{
    cairn_portal board = cairn_portal_named("board");
    uint32_t notes;
    board_colour colour;
    char note[BOARD_NOTE_MAX];
    size_t length;

    check(board_pin(board, 2, BOARD_COLOUR_RED, "milk", 4, &notes) == 0 && notes == 1, "pin");
    check(board_pin(board, 5, BOARD_COLOUR_WHITE, "", 0, &notes) == 0 && notes == 2, "pin nothing");
    check(board_read(board, 2, &colour, note, sizeof note, &length) == 0, "read");
    check(length == 4 && memcmp(note, "milk", 4) == 0 && colour == BOARD_COLOUR_RED, "what was read");
    check(board_read(board, 2, &colour, note, 2, &length) == 0 && length == 2, "read a part");
    check(board_read(board, 3, &colour, note, sizeof note, &length) == -CAIRN_ENOENT, "read an empty place");

    // What the dispatcher refuses before the server sees it.
    char much[BOARD_NOTE_MAX + 1] = { 0 };
    check(board_pin(board, 0, BOARD_COLOUR_RED, much, sizeof much, &notes) == -CAIRN_EMSGSIZE, "too long a note");
    // This the nucleus refuses, which the board has asked to.
    check(board_pin(board, 0, 3, "x", 1, &notes) == CAIRN_GATE_FAILED(CAIRN_ERROR_BAD_ARGUMENT), "no such colour");
    check(board_pin(board, BOARD_PLACES, BOARD_COLOUR_RED, "x", 1, &notes) == -CAIRN_EINVAL, "no such place");
    struct cairn_message unknown = { .words = { 99 } };
    check(cairn_call(board, &unknown) == -CAIRN_ENOSYS, "no such operation");
    check(board_pin(CAIRN_NO_PORTAL, 0, BOARD_COLOUR_RED, "x", 1, &notes) == CAIRN_GATE_FAILED(CAIRN_ERROR_BAD_PORTAL), "no such portal");

    struct board_summary summary;
    check(board_summary(board, &summary) == 0, "summary");
    check(summary.notes == 2 && summary.longest == 4 && summary.pinned == 2, "what is in the summary");

    // Changes come as pulses to our own channel.
    cairn_portal watcher = cairn_make_portal(7);
    check(board_watch(board, watcher) == 0, "watch");
    cairn_close(watcher);
    check(board_clear(board) == 0, "clear");
    struct cairn_caller pulse;
    check(cairn_receive(&pulse, cairn_clock() + UINT64_C(5000000000)) == 0, "a pulse");
    check(pulse.kind == CAIRN_KIND_PULSE && pulse.words[0] == CAIRN_PULSE_NOTIFY && pulse.badge == 7 && pulse.words[1] == BOARD_CHANGE_CLEARED, "which pulse");

    // An answer at once, because there is a note again.
    check(board_pin(board, 1, BOARD_COLOUR_YELLOW, "bread", 5, &notes) == 0 && notes == 1, "pin again");
    check(board_wait(board, 1, note, sizeof note, &length) == 0 && length == 5, "wait for what is there");

    cairn_portal other = cairn_portal_named("other");
    pieces(board);
    places(board, other);
    posters(board);

    // Answers that come later: each client says at place 6 of its own board that it has done the above, waits for the other to say so,
    // pins something at place 7 of the other's board, and waits for that at its own.
    check(board_pin(board, 6, BOARD_COLOUR_WHITE, "ready", 5, &notes) == 0, "say ready");
    check(board_wait(other, 6, note, sizeof note, &length) == 0 && length == 5, "wait for the other");
    check(board_pin(other, 7, BOARD_COLOUR_RED, "good news", 9, &notes) == 0, "pin at the other's");
    check(board_wait(board, 7, note, sizeof note, &length) == 0 && length == 9, "wait for what comes");
    check(memcmp(note, "good news", 9) == 0, "what came");

    cairn_log_number("client in C, failures:", failures);
    return failures;
}
