// A driver in C: the PC's clock chip (MC146818) interrupts 2 to 8,192 times a second, the driver counts, and who has a portal to it asks how often.

#include <cairn/device.h>
#include <cairn/ticker.h>

#define INDEX 0x70
#define DATA 0x71
// Status A: crystal on, and the rate. B: what interrupts. C: what it was; reading it lets the next one come.
#define STATUS_A 10
#define STATUS_B 11
#define STATUS_C 12
#define CRYSTAL_ON 0x20
#define PERIODIC 0x40

struct driver {
    cairn_portal ports, irq;
    uint64_t ticks;
};

static int64_t chip(const struct driver *driver, uint8_t index)
{
    cairn_out8(driver->ports, INDEX, index);
    return cairn_in8(driver->ports, DATA);
}

static void set_chip(const struct driver *driver, uint8_t index, uint8_t value)
{
    cairn_out8(driver->ports, INDEX, index);
    cairn_out8(driver->ports, DATA, value);
}

// Everything that is no request: here the interrupt.
static void pulse(void *self, const struct cairn_caller *pulse)
{
    struct driver *driver = self;
    if (pulse->words[0] != CAIRN_PULSE_INTERRUPT)
        return;
    driver->ticks += pulse->words[1];
    chip(driver, STATUS_C);
    cairn_interrupt_acknowledge(driver->irq);
}

static int64_t count(void *self, const struct cairn_caller *caller, uint64_t *ticks)
{
    *ticks = ((const struct driver *)self)->ticks;
    return 0;
}

static const struct ticker_server server = { .count = count };

int main(void)
{
    static struct driver driver;
    driver.ports = cairn_portal_named("ports");
    driver.irq = cairn_portal_named("irq");
    const char *rate = cairn_argument("rate");
    // A successor finds the chip as its predecessor left it: first nothing interrupts.
    int64_t status = chip(&driver, STATUS_B);
    if (status < 0) {
        cairn_log_number("no portal to the chip:", status);
        return 1;
    }
    set_chip(&driver, STATUS_B, (uint8_t)(status & ~PERIODIC));
    chip(&driver, STATUS_C);
    int64_t failed = cairn_interrupt_bind(driver.irq, 0);
    if (failed) {
        cairn_log_number("no interrupt:", failed);
        return 1;
    }
    set_chip(&driver, STATUS_A, CRYSTAL_ON | (rate && *rate >= '3' && *rate <= '9' ? *rate - '0' : 6));
    set_chip(&driver, STATUS_B, (uint8_t)(status | PERIODIC));
    cairn_serve(ticker_dispatch, &ticker_signature, &server, &driver, pulse);
}
