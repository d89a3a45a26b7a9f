/* Sums of what stays in the machine (raw(7)): programs that read packets of lo see what stands in the place of a sum; what a program made itself is checked. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static uint16_t half(const unsigned char *at) { return at[0] << 8 | at[1]; }

/* The sum of a pseudo-header, and of what is behind it, if it is to be part of it. */
static uint16_t sum(uint32_t source, uint32_t destination, int protocol, const unsigned char *bytes, size_t length, int whole)
{
	uint32_t all = (source >> 16) + (source & 0xffff) + (destination >> 16) + (destination & 0xffff) + protocol + length;
	for (size_t i = 0; whole && i < length; i++)
		all += i % 2 ? bytes[i] : bytes[i] << 8;
	while (all >> 16)
		all = (all & 0xffff) + (all >> 16);
	return all;
}

/* The next packet of this protocol to this port, from its header on. */
static ssize_t next(int raw, unsigned char *bytes, size_t length, int port)
{
	struct pollfd one = { .fd = raw, .events = POLLIN };
	while (poll(&one, 1, 2000) == 1) {
		ssize_t n = recv(raw, bytes, length, MSG_DONTWAIT);
		if (n >= 28 && half(bytes + 22) == port)
			return n;
	}
	return -1;
}

static int bound(int kind, struct sockaddr_in *name)
{
	socklen_t length = sizeof *name;
	int s = socket(AF_INET, kind, 0);
	*name = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (bind(s, (struct sockaddr *)name, length) || getsockname(s, (struct sockaddr *)name, &length))
		perror("bind");
	return s;
}

static void seen(const char *what, int raw, int port, int place)
{
	unsigned char bytes[2000];
	ssize_t n = next(raw, bytes, sizeof bytes, port);
	if (n < 0) {
		printf("%s: nothing came\n", what);
		return;
	}
	uint16_t stands = half(bytes + 20 + place);
	uint16_t pseudo = sum(INADDR_LOOPBACK, INADDR_LOOPBACK, bytes[9], bytes + 20, n - 20, 0);
	uint16_t head = 0;
	uint32_t all = 0;
	for (int i = 0; i < 20; i += 2)
		all += half(bytes + i);
	head = (all & 0xffff) + (all >> 16);
	printf("%s: %s, header %s\n", what, stands == pseudo ? "the pseudo-header's" : stands == 0 ? "none" : "another", head == 0xffff ? "right" : "wrong");
}

int main(void)
{
	struct sockaddr_in name, from;
	char text[100];
	int udp = bound(SOCK_DGRAM, &name), sender = bound(SOCK_DGRAM, &from);
	int port = ntohs(name.sin_port);
	int raw = socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
	printf("sent: %zd\n", sendto(sender, "hello", 5, 0, (struct sockaddr *)&name, sizeof name));
	seen("datagram", raw, port, 6);
	printf("received: %zd\n", recv(udp, text, sizeof text, 0));

	/* A datagram that a program makes itself: with a wrong sum, a right one, and none. */
	static const char *kinds[] = { "wrong", "right", "none" };
	for (int i = 0; i < 3; i++) {
		unsigned char own[12] = { 0x12, 0x34, port >> 8, port, 0, 12, 0, 0, 'o', 'w', 'n', '0' + i };
		uint16_t right = ~sum(INADDR_LOOPBACK, INADDR_LOOPBACK, IPPROTO_UDP, own, sizeof own, 1);
		uint16_t put = i == 2 ? 0 : i == 1 ? right : right ^ 0x55;
		own[6] = put >> 8;
		own[7] = put;
		struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		printf("%s: sent %zd", kinds[i], sendto(raw, own, sizeof own, 0, (struct sockaddr *)&to, sizeof to));
		ssize_t n = recv(udp, text, sizeof text, MSG_DONTWAIT);
		printf(", received %.*s\n", n > 0 ? (int)n : 7, n > 0 ? text : "nothing");
	}

	int stream = bound(SOCK_STREAM, &name), tcp = socket(AF_INET, SOCK_RAW, IPPROTO_TCP), client = socket(AF_INET, SOCK_STREAM, 0);
	listen(stream, 1);
	printf("connected: %d\n", connect(client, (struct sockaddr *)&name, sizeof name));
	seen("segment", tcp, ntohs(name.sin_port), 16);
	return 0;
}
