// What a driver in C needs: I/O ports, interrupts, device registers. The manifest gives each of them by name (docs/guide/driver.md).
#ifndef CAIRN_DEVICE_H
#define CAIRN_DEVICE_H

#include <cairn/runtime.h>

// The value of the port (0 or more), or CAIRN_GATE_FAILED; CAIRN_ERROR_BAD_ARGUMENT: the port is outside the portal's range.
int64_t cairn_in8(cairn_portal ports, uint16_t port);
int64_t cairn_in16(cairn_portal ports, uint16_t port);
int64_t cairn_in32(cairn_portal ports, uint16_t port);
// 0, or CAIRN_GATE_FAILED.
int64_t cairn_out8(cairn_portal ports, uint16_t port, uint8_t value);
int64_t cairn_out16(cairn_portal ports, uint16_t port, uint16_t value);
int64_t cairn_out32(cairn_portal ports, uint16_t port, uint32_t value);

// The interrupt comes from now on as a pulse to the own channel, with this badge. Its words: CAIRN_PULSE_INTERRUPT, and how often it came since the last pulse.
// 0, or CAIRN_GATE_FAILED.
int64_t cairn_interrupt_bind(cairn_portal interrupt, uint64_t badge);
// The device has been served, the next interrupt may come: 0, or CAIRN_GATE_FAILED.
int64_t cairn_interrupt_acknowledge(cairn_portal interrupt);

// Registers that the manifest gave by `device-memory = { NAME = … }`, and their length in bytes; a null pointer if it gave none of that name.
// The device may change them at any time: read each once, and believe nothing.
volatile void *cairn_registers(const char *name, size_t *length);

#endif
