// A server that computes with doubles, so with vector registers: its own.

#include <cairn/runtime.h>
#include <cairn/sums.h>

static int64_t add(void *self, const struct cairn_caller *caller, uint64_t number, uint64_t *sum)
{
    (void)caller;
    double *total = self, given;
    memcpy(&given, &number, sizeof given);
    *total += given;
    memcpy(sum, total, sizeof *total);
    return 0;
}

static void pulse(void *self, const struct cairn_caller *pulse)
{
    (void)self;
    (void)pulse;
}

static const struct sums_server server = { .add = add };
static double total;

int main(void)
{
    cairn_serve(sums_dispatch, &sums_signature, &server, &total, pulse);
}
