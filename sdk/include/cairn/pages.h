// Whole pages that change hands: one side offers them and passes the portal in a message (an argument that is `pages` by its definition), the other one takes them from `vm`. See docs/services/windows.md.
#ifndef CAIRN_PAGES_H
#define CAIRN_PAGES_H

#include <cairn/gate.h>
#include <cairn/vm.h>

// Offer whole pages of one's own: VM_GIVING_MOVE (they read as zeroes afterwards) or VM_GIVING_COPY (both have them, and each side that writes gets its own). `receiver`: the only domain that may take them, 0: whoever has
// the portal. This domain may always take back what nobody took. 0 or negative.
int64_t cairn_pages_offer(void *pages, size_t length, vm_giving how, uint32_t receiver, cairn_portal *offer);
// Take what is offered, if it is `most` bytes at most; the portal is closed then. Nobody else can change these pages. 0 or negative.
int64_t cairn_pages_take(cairn_portal offer, size_t most, void **pages, size_t *length);
// Give taken pages back to `vm`.
void cairn_pages_drop(void *pages, size_t length);

#endif
