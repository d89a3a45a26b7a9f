/* No program makes a partition (docs/services/schedulers.md): below the personality as well, user 1000 reaches no thread, its own among them, and a receive right alone is not enough.
 * cairn-test: linux=no */
#define _GNU_SOURCE
#include "gate.h"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* Of CURRENT, of a receive right, of a thread and of a domain (abi/src/service.rs). */
enum { IDENTITY = 0, PORTAL_INFO = 10, CHANNEL_CREATE = 15, DISPATCH = 10, SET_SCHEDULER = 11, THREAD_CONTROL = 15 };
enum { KIND_CHANNEL = 2, KIND_DOMAIN = 4, KIND_THREAD = 6, SLOTS = 4096 };

static traverse *go;

static int ask(uint64_t slot, uint64_t operation, struct gate *g) {
    g->rax = slot | operation << 32;
    go(g);
    return g->rax & 255;
}

static void *rest(void *gate) {
    pause();
    return gate;
}

int main(void) {
    go = find_gate();
    if (go == NULL)
        return 98;
    if (setgid(1000) || setuid(1000))
        return 9;
    /* Another thread, which `proc` made. */
    pthread_t other;
    if (pthread_create(&other, NULL, rest, NULL))
        return 8;
    struct gate g = {0};
    int made = ask(SLOT_CURRENT, CHANNEL_CREATE, &g);
    uint64_t channel = g.words[0];
    ask(SLOT_CURRENT, IDENTITY, &g);
    uint64_t own = g.words[0];
    int entries = 0, reached = 0, joined = 0;
    for (uint64_t slot = 1; slot < SLOTS; slot++) {
        memset(&g, 0, sizeof g);
        g.words[0] = slot;
        if (ask(SLOT_CURRENT, PORTAL_INFO, &g) != 0 || g.words[0] == KIND_CHANNEL)
            continue;
        entries++;
        reached += g.words[0] == KIND_DOMAIN || g.words[0] == KIND_THREAD;
        memset(&g, 0, sizeof g);
        g.words[0] = channel;
        joined += slot != channel && ask(slot, SET_SCHEDULER, &g) == 0;
        memset(&g, 0, sizeof g);
        g.words[0] = own, g.words[1] = SET_SCHEDULER, g.words[2] = channel;
        joined += slot != channel && ask(slot, THREAD_CONTROL, &g) == 0;
    }
    memset(&g, 0, sizeof g);
    g.rbx = own;
    int chosen = ask(channel, DISPATCH, &g);
    printf("channel %d, entries looked at %s, threads and domains %d, joined %d, chosen %s\n", made, entries > 0 ? "some" : "none", reached, joined, chosen != 0 ? "no" : "yes");
    return made != 0 || entries == 0 || reached != 0 || joined != 0 || chosen == 0;
}
