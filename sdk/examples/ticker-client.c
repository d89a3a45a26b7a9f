// Asks the ticker until it has ticked ten times. Beside that it looks for a thing that nobody gave it, and at a timer's registers.

#include <cairn/device.h>
#include <cairn/ticker.h>

int main(void)
{
    cairn_portal ticker = cairn_portal_named("ticker");
    uint64_t ticks = 0;
    while (ticks < 10) {
        int64_t failed = ticker_count(ticker, &ticks);
        if (failed) {
            cairn_log_number("the ticker does not answer:", failed);
            return 1;
        }
        // Nobody sends anything: this only lets time pass.
        struct cairn_caller nobody;
        cairn_receive(&nobody, cairn_clock() + 1000000);
    }
    cairn_log("ten ticks");

    int64_t refused = cairn_in8(cairn_portal_named("ports"), 0x60);
    cairn_log(refused < 0 ? "no ports without a line in the manifest" : "somebody else's port");

    size_t length = 0;
    volatile uint32_t *timer = cairn_registers("hpet", &length);
    // The first register of the PC's event timer has its maker, and the length of its tick in femtoseconds.
    if (timer && length >= 8)
        cairn_log(timer[0] >> 16 == 0x8086 && timer[1] != 0 ? "an event timer of 0x8086" : "no event timer");
    return 0;
}
