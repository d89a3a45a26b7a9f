// A native component in C: what runtime.c gives to a program that starts at `int main(void)`. There is no heap and no standard library; memory comes from static objects,
// or from `vm` (cairn/vm.h, portal CAIRN_SLOT_VM). Programs are compiled without vector registers, which belong to whoever called,
// unless the manifest gives them their own (registers = "own").
#ifndef CAIRN_RUNTIME_H
#define CAIRN_RUNTIME_H

#include <cairn/gate.h>

// The component's name in the manifest.
const char *cairn_name(void);
// The portal that the manifest gave under this name, or CAIRN_NO_PORTAL.
cairn_portal cairn_portal_named(const char *name);
// What stands behind NAME= in one of the manifest's `arguments`, or a null pointer.
const char *cairn_argument(const char *name);

// One line in the nucleus's log, with the component's name before it; the second form with a number behind it.
void cairn_log(const char *text);
void cairn_log_number(const char *text, int64_t number);

// End this thread, and the component with its last one.
_Noreturn void cairn_exit(uint64_t value);
// Monotonic nanoseconds.
uint64_t cairn_clock(void);
// OR a value into the portal's pulse: 0 or CAIRN_GATE_FAILED. Never waits.
int64_t cairn_notify(cairn_portal to, uint64_t value);
// A new portal to the own channel, or CAIRN_NO_PORTAL.
cairn_portal cairn_make_portal(uint64_t badge);

// Wait for a message or pulse; `deadline` is absolute (0 = none). 0, or CAIRN_GATE_FAILED(CAIRN_ERROR_TIMED_OUT).
int64_t cairn_receive(struct cairn_caller *into, uint64_t deadline);
// Answer a caller, now or later. An answer that it cannot take becomes an error for it.
int64_t cairn_answer(uint64_t token, const struct cairn_reply *reply);

// A generated dispatcher.
typedef _Bool cairn_dispatch(const void *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply);
// From now on the nucleus asks this of the own channel's calls, and nothing else: 0 or negative. A program without registers of its own ends here if its interface says `float switched`.
int64_t cairn_sign(const struct cairn_signature *signature);
// Have the channel signed, receive and answer for ever; `pulse` gets everything that is no request.
_Noreturn void cairn_serve(cairn_dispatch *dispatch, const struct cairn_signature *signature, const void *server, void *self, void (*pulse)(void *self, const struct cairn_caller *pulse));

// What the compiler calls by itself, and what everybody needs.
void *memcpy(void *restrict to, const void *restrict from, size_t length);
void *memmove(void *to, const void *from, size_t length);
void *memset(void *to, int byte, size_t length);
int memcmp(const void *a, const void *b, size_t length);
size_t strlen(const char *text);

#endif
