// Windows: a server sees whole pages of a caller that has agreed (a part that is `shown` by its definition), without a copy. See docs/services/windows.md.
#ifndef CAIRN_WINDOW_H
#define CAIRN_WINDOW_H

#include <cairn/gate.h>

// A place for pages of callers. Where nothing is shown there are pages of this component's own. What is seen may change, and may be the own pages again, at any time.
struct cairn_window {
    cairn_portal portal;
    volatile uint64_t *words;
    size_t pages;
};

// Make one of so many pages (at most CAIRN_WINDOW_PAGES), which stay this component's for ever. 0 or negative.
int64_t cairn_window_make(struct cairn_window *window, size_t pages);
// Show `pages` pages from byte `offset` of the caller's out part on, until the reply. Flags: CAIRN_WINDOW_IN (its in part, for writing), CAIRN_WINDOW_KEEP (longer, if the part is `kept`), CAIRN_WINDOW_COPY
// (a page that is written becomes a copy). 0 or negative: then copying is always possible.
int64_t cairn_window_open(const struct cairn_window *window, const struct cairn_caller *caller, size_t offset, size_t pages, uint64_t flags);
void cairn_window_close(const struct cairn_window *window);

#endif
