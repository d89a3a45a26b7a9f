/* The Internet checksum (RFC 1071) of packets that tests make. */
#include <stdint.h>

static uint32_t add(const void *data, int length)
{
	const uint8_t *bytes = data;
	uint32_t total = 0;
	for (int i = 0; i < length; i++)
		total += i & 1 ? bytes[i] : bytes[i] << 8;
	return total;
}

static uint16_t fold(uint32_t total)
{
	while (total >> 16)
		total = (total & 0xffff) + (total >> 16);
	return ~total;
}

static void put(uint8_t *to, uint16_t value)
{
	to[0] = value >> 8;
	to[1] = value;
}
