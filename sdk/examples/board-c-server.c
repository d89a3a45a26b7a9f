// The notice board's server in C; ../../docs/guide/interfaces.md goes through it.

#include <cairn/board.h>
#include <cairn/pages.h>
#include <cairn/runtime.h>
#include <cairn/window.h>

struct note {
    _Bool there;
    board_colour colour;
    size_t length;
    char text[BOARD_NOTE_MAX];
    // Who waits for this place to be filled; 0: nobody.
    uint64_t waiting;
};

struct board {
    struct note places[BOARD_PLACES];
    uint64_t pinned;
    cairn_portal watcher;
    // Where callers' pages are looked at; without pages everything is copied.
    struct cairn_window window;
    // Pages that somebody gave.
    void *poster;
    size_t poster_length;
};

static uint32_t notes(const struct board *board)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < BOARD_PLACES; i++)
        count += board->places[i].there;
    return count;
}

static void tell(const struct board *board, uint64_t change)
{
    if (board->watcher != CAIRN_NO_PORTAL)
        cairn_notify(board->watcher, change);
}

static void put(struct board *board, uint32_t place, board_colour colour, const char *text, size_t length, uint32_t *count)
{
    struct note *note = &board->places[place];
    memcpy(note->text, text, length);
    note->length = length;
    note->colour = colour;
    note->there = 1;
    board->pinned++;
    *count = notes(board);
    if (note->waiting) {
        struct cairn_reply reply;
        board_wait_reply(&reply, (struct cairn_bytes){ note->text, note->length });
        cairn_answer(note->waiting, &reply);
        note->waiting = 0;
    }
    tell(board, BOARD_CHANGE_PINNED);
}

static int64_t pin(void *self, const struct cairn_caller *caller, uint32_t place, board_colour colour, size_t note_length, uint32_t *count)
{
    struct board *board = self;
    if (place >= BOARD_PLACES)
        return -CAIRN_EINVAL;
    // Read it beside the place first: what is there stays if the caller's memory is not.
    char text[BOARD_NOTE_MAX];
    if (cairn_read(caller, 0, text, note_length) != (int64_t)note_length)
        return -CAIRN_EFAULT;
    put(board, place, colour, text, note_length, count);
    return 0;
}

static int64_t read_note(void *self, const struct cairn_caller *caller, uint32_t place, board_colour *colour, size_t note_room, struct cairn_bytes *text)
{
    (void)caller, (void)note_room;
    struct board *board = self;
    if (place >= BOARD_PLACES)
        return -CAIRN_EINVAL;
    const struct note *note = &board->places[place];
    if (!note->there)
        return -CAIRN_ENOENT;
    *colour = note->colour;
    *text = (struct cairn_bytes){ note->text, note->length };
    return 0;
}

static int64_t clear(void *self, const struct cairn_caller *caller)
{
    (void)caller;
    struct board *board = self;
    for (uint32_t i = 0; i < BOARD_PLACES; i++)
        board->places[i].there = 0;
    tell(board, BOARD_CHANGE_CLEARED);
    return 0;
}

static int64_t summary(void *self, const struct cairn_caller *caller, struct board_summary *all)
{
    (void)caller;
    const struct board *board = self;
    all->notes = notes(board);
    all->pinned = board->pinned;
    for (uint32_t i = 0; i < BOARD_PLACES; i++)
        if (board->places[i].there && board->places[i].length > all->longest)
            all->longest = (uint32_t)board->places[i].length;
    return 0;
}

static int64_t watch(void *self, const struct cairn_caller *caller, cairn_portal watcher)
{
    (void)caller;
    struct board *board = self;
    if (board->watcher != CAIRN_NO_PORTAL)
        cairn_close(board->watcher);
    board->watcher = watcher;
    return 0;
}

static int64_t wait_for(void *self, const struct cairn_caller *caller, uint32_t place, size_t note_room, struct cairn_bytes *text)
{
    struct board *board = self;
    if (place >= BOARD_PLACES)
        return -CAIRN_EINVAL;
    struct note *note = &board->places[place];
    if (note->there) {
        *text = (struct cairn_bytes){ note->text, note->length };
        return 0;
    }
    // A later answer must fit whatever is pinned; and one may wait at a place.
    if (note_room < BOARD_NOTE_MAX)
        return -CAIRN_EINVAL;
    if (note->waiting)
        return -CAIRN_EBUSY;
    note->waiting = caller->token;
    return CAIRN_LATER;
}

// A caller that waits may be interrupted or go away.
static void pulse(void *self, const struct cairn_caller *pulse)
{
    struct board *board = self;
    if (pulse->words[0] != CAIRN_PULSE_UNBLOCK && pulse->words[0] != CAIRN_PULSE_GONE)
        return;
    for (uint32_t i = 0; i < BOARD_PLACES; i++) {
        if (board->places[i].waiting != pulse->words[1])
            continue;
        board->places[i].waiting = 0;
        if (pulse->words[0] == CAIRN_PULSE_UNBLOCK) {
            struct cairn_reply reply = { .words = { (uint64_t)-CAIRN_EINTR } };
            cairn_answer(pulse->words[1], &reply);
        }
    }
}

// However the caller cut its lines, here they are one run of bytes.
static int64_t pin_lines(void *self, const struct cairn_caller *caller, uint32_t place, board_colour colour, size_t lines_length, uint32_t *count)
{
    return pin(self, caller, place, colour, lines_length, count);
}

// The notes go from where they lie into the caller's room.
static int64_t read_all(void *self, const struct cairn_caller *caller, uint32_t *count, size_t texts_room, struct cairn_bytes texts[8])
{
    (void)caller, (void)texts_room;
    const struct board *board = self;
    *count = notes(board);
    for (uint32_t i = 0; i < BOARD_PLACES; i++)
        if (board->places[i].there)
            texts[i] = (struct cairn_bytes){ board->places[i].text, board->places[i].length };
    return 0;
}

static uint64_t sum_of(const volatile uint64_t *words, size_t count)
{
    uint64_t sum = 0;
    while (count--)
        sum += *words++;
    return sum;
}

static int64_t survey(void *self, const struct cairn_caller *caller, size_t poster_length, uint64_t *sum, _Bool *seen)
{
    const struct board *board = self;
    size_t pages = poster_length / CAIRN_PAGE, done = 0;
    if (pages && pages <= board->window.pages && cairn_window_open(&board->window, caller, 0, pages, 0) == 0) {
        *seen = 1;
        done = pages * CAIRN_PAGE;
        *sum = sum_of(board->window.words, done / 8);
    }
    while (done < poster_length) {
        uint64_t some[64] = { 0 };
        int64_t count = cairn_read(caller, done, some, sizeof some);
        if (count <= 0)
            return -CAIRN_EFAULT;
        *sum += sum_of(some, 64);
        done += (size_t)count;
    }
    return 0;
}

static int64_t hang(void *self, const struct cairn_caller *caller, cairn_portal poster, uint64_t *sum)
{
    (void)caller;
    struct board *board = self;
    if (board->poster)
        return -CAIRN_EBUSY;
    // Whatever the caller gave, it is `vm` that is asked for the pages.
    if (cairn_pages_take(poster, BOARD_POSTER_MAX, &board->poster, &board->poster_length) != 0)
        return -CAIRN_EIO;
    *sum = sum_of(board->poster, board->poster_length / 8);
    return 0;
}

static int64_t take_down(void *self, const struct cairn_caller *caller, uint64_t *poster)
{
    struct board *board = self;
    if (!board->poster)
        return -CAIRN_ENOENT;
    cairn_portal offer;
    if (cairn_pages_offer(board->poster, board->poster_length, VM_GIVING_MOVE, caller->sender, &offer) != 0)
        return -CAIRN_EIO;
    cairn_pages_drop(board->poster, board->poster_length);
    board->poster = 0;
    *poster = offer;
    return 0;
}

static int64_t open_place(void *self, const struct cairn_caller *caller, uint32_t place, uint64_t *opened)
{
    (void)self, (void)caller;
    if (place >= BOARD_PLACES)
        return -CAIRN_EINVAL;
    *opened = BOARD_PLACE_BADGE + place;
    return 0;
}

static int64_t copy(void *self, const struct cairn_caller *caller, uint32_t place, uint64_t from, uint32_t *count)
{
    (void)caller;
    struct board *board = self;
    from -= BOARD_PLACE_BADGE;
    if (from >= BOARD_PLACES || place >= BOARD_PLACES)
        return -CAIRN_EINVAL;
    const struct note *note = &board->places[from];
    if (!note->there)
        return -CAIRN_ENOENT;
    char text[BOARD_NOTE_MAX];
    memcpy(text, note->text, note->length);
    put(board, place, note->colour, text, note->length, count);
    return 0;
}

static const struct board_server server = {
    .pin = pin, .read = read_note, .clear = clear, .summary = summary, .watch = watch, .wait = wait_for,
    .pin_lines = pin_lines, .read_all = read_all, .survey = survey, .hang = hang, .take_down = take_down,
    .open = open_place, .copy = copy,
};

static struct board board = { .watcher = CAIRN_NO_PORTAL };

int main(void)
{
    // Without a window everything is copied.
    cairn_window_make(&board.window, BOARD_POSTER_MAX / CAIRN_PAGE);
    cairn_serve(board_dispatch, &board_signature, &server, &board, pulse);
}
