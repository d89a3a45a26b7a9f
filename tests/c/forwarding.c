/* Forwarding between two interfaces of TUN, IPv4 and IPv6: off at first, who may turn it on, what goes on and how, what senders are told. */
#define _GNU_SOURCE
#include "checksum.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TUNSETIFF 0x400454ca
#define TUN 1
#define NO_PI 0x1000

static const char forward4[] = "/proc/sys/net/ipv4/ip_forward", forward6[] = "/proc/sys/net/ipv6/conf/all/forwarding";
static int ends[2];

static void interface(int number)
{
	struct ifreq request = { .ifr_flags = TUN | NO_PI };
	int control = socket(AF_INET, SOCK_DGRAM, 0), fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
	sprintf(request.ifr_name, "tun%d", number - 1);
	if (ioctl(fd, TUNSETIFF, &request))
		perror("TUNSETIFF");
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(10 << 24 | number << 16 | 1) };
	memcpy(&request.ifr_addr, &in, sizeof in);
	if (ioctl(control, SIOCSIFADDR, &request))
		perror("SIOCSIFADDR");
	in.sin_addr.s_addr = htonl(0xffffff00);
	memcpy(&request.ifr_addr, &in, sizeof in);
	if (ioctl(control, SIOCSIFNETMASK, &request))
		perror("SIOCSIFNETMASK");
	if (ioctl(control, SIOCGIFFLAGS, &request))
		perror("SIOCGIFFLAGS");
	request.ifr_flags |= IFF_UP;
	if (ioctl(control, SIOCSIFFLAGS, &request))
		perror("SIOCSIFFLAGS");
	/* RTM_NEWADDR: fdNN::1/64, of which nobody is asked. */
	struct {
		uint32_t length;
		uint16_t type, flags;
		uint32_t sequence, port;
		uint8_t family, bits, own_flags, scope;
		uint32_t index;
		uint16_t size, kind;
		uint8_t address[16];
	} message = { 44, 20, 5, 1, 0, AF_INET6, 64, 2, 0, if_nametoindex(request.ifr_name), 20, 2, { 0xfd, number, [15] = 1 } };
	struct { uint32_t head[4]; int32_t error; uint8_t rest[100]; } answer = { 0 };
	int link = socket(AF_NETLINK, SOCK_RAW, 0);
	send(link, &message, sizeof message, 0);
	recv(link, &answer, sizeof answer, 0);
	if (answer.error)
		printf("address: %d\n", answer.error);
	close(link);
	close(control);
	ends[number - 1] = fd;
}

static void mtu(const char *name, int bytes)
{
	struct ifreq request = { .ifr_mtu = bytes };
	int control = socket(AF_INET, SOCK_DGRAM, 0);
	strcpy(request.ifr_name, name);
	if (ioctl(control, SIOCSIFMTU, &request))
		perror("SIOCSIFMTU");
	close(control);
}

/* A datagram of IPv4 with so many bytes, from 10.A.0.B to 10.C.0.D or elsewhere: its length. */
static int datagram4(uint8_t *to, const char *source, const char *destination, int ttl, int flags, int bytes)
{
	uint8_t head[20] = { 0x45, 0, 0, 0, 0, 9, 0, 0, ttl, 17 };
	put(head + 2, 28 + bytes);
	put(head + 6, flags);
	inet_pton(AF_INET, source, head + 12);
	inet_pton(AF_INET, destination, head + 16);
	put(head + 10, fold(add(head, 20)));
	memcpy(to, head, 20);
	memset(to + 20, 0, 8);
	put(to + 20, 5000);
	put(to + 22, 53);
	put(to + 24, 8 + bytes);
	for (int i = 0; i < bytes; i++)
		to[28 + i] = i * 7;
	return 28 + bytes;
}

static int datagram6(uint8_t *to, const char *source, const char *destination, int hops, int bytes)
{
	memset(to, 0, 48);
	to[0] = 0x60;
	put(to + 4, 8 + bytes);
	to[6] = 17;
	to[7] = hops;
	inet_pton(AF_INET6, source, to + 8);
	inet_pton(AF_INET6, destination, to + 24);
	put(to + 40, 5000);
	put(to + 42, 53);
	put(to + 44, 8 + bytes);
	for (int i = 0; i < bytes; i++)
		to[48 + i] = i * 7;
	put(to + 46, fold(add(to + 8, 40 + bytes) + 17 + 8 + bytes));
	return 48 + bytes;
}

/* Is it something that a system says by itself: questions about routers and groups? */
static int own(const uint8_t *packet, int length)
{
	return packet[0] >> 4 == 6 && (length < 48 || packet[6] == 0 || (packet[6] == 58 && packet[40] >= 130));
}

static int next(int end, uint8_t *to, int room, int patience)
{
	for (;;) {
		struct pollfd ready = { ends[end], POLLIN, 0 };
		if (poll(&ready, 1, patience) <= 0)
			return -1;
		int length = read(ends[end], to, room);
		if (length < 0 || !own(to, length))
			return length;
	}
}

static void show(const char *what, const uint8_t *ip, int length)
{
	char source[64], destination[64];
	int v6 = ip[0] >> 4 == 6, head = v6 ? 40 : (ip[0] & 15) * 4;
	inet_ntop(v6 ? AF_INET6 : AF_INET, ip + (v6 ? 8 : 12), source, sizeof source);
	inet_ntop(v6 ? AF_INET6 : AF_INET, ip + (v6 ? 24 : 16), destination, sizeof destination);
	printf("%s: %d bytes, %s to %s, protocol %d", what, length, source, destination, ip[v6 ? 6 : 9]);
	if (!v6)
		printf(", header %s", fold(add(ip, head)) ? "wrong" : "right");
	const uint8_t *above = ip + head;
	if (ip[v6 ? 6 : 9] == 17 || ip[6] == 44)
		printf(", ttl %d", ip[v6 ? 7 : 8]);
	if (!v6 && (ip[6] & 0x3f || ip[7]))
		printf(", piece at %d%s", ((ip[6] & 0x1f) << 8 | ip[7]) * 8, ip[6] & 0x20 ? " and more" : "");
	if (v6 && ip[6] == 44)
		printf(", piece at %d%s", (above[2] << 8 | above[3]) & ~7, above[3] & 1 ? " and more" : "");
	if (ip[v6 ? 6 : 9] == 17 && v6)
		printf(", sum %s", fold(add(ip + 8, length - 8) + 17 + length - 40) ? "wrong" : "right");
	if (ip[v6 ? 6 : 9] == (v6 ? 58 : 1)) {
		uint32_t sum = add(above, length - head) + (v6 ? add(ip + 8, 32) + 58 + length - head : 0);
		printf(", type %d code %d word %u, sum %s, quotes %d bytes with ttl %d", above[0], above[1],
		       above[4] << 24 | above[5] << 16 | above[6] << 8 | above[7], fold(sum) ? "wrong" : "right", length - head - 8, above[8 + (v6 ? 7 : 8)]);
	}
	printf("\n");
}

/* What comes out at either end when this goes in at the first one. */
static void through(const char *what, const uint8_t *packet, int length, int expected)
{
	uint8_t bytes[4000];
	int got = 0;
	if (write(ends[0], packet, length) != length)
		printf("%s: %s\n", what, strerror(errno));
	for (int wait = 0; wait < 20 && got < expected; wait++)
		for (int end = 0; end < 2; end++) {
			while ((length = next(end, bytes, sizeof bytes, 50)) > 0) {
				show(what, bytes, length);
				printf("  at end %d\n", end);
				got++;
			}
		}
	if (!expected)
		for (int end = 0; end < 2; end++)
			while ((length = next(end, bytes, sizeof bytes, 100)) > 0) {
				show(what, bytes, length);
				got++;
			}
	printf("%s: %d packets\n", what, got);
}

static void value(const char *path)
{
	char text[20] = { 0 };
	int fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
		perror(path);
	printf("%s: %s", path, text);
	close(fd);
}

static void set(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC);
	if (fd < 0) {
		printf("%s: %s\n", path, strerror(errno));
		return;
	}
	if (write(fd, text, strlen(text)) < 0)
		printf("%s, '%s': %s\n", path, text, strerror(errno));
	close(fd);
}

int main(void)
{
	uint8_t packet[4000], piece[2000];
	int length;
	value(forward4);
	value(forward6);
	interface(1);
	interface(2);
	usleep(200000);
	through("off", packet, datagram4(packet, "10.1.0.2", "10.2.0.2", 9, 0, 20), 0);
	through("off", packet, datagram6(packet, "fd01::2", "fd02::2", 9, 20), 0);
	fflush(stdout);
	if (fork() == 0) {
		if (setgroups(0, NULL) || setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
			perror("setresuid");
		set(forward4, "1");
		value(forward4);
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
	set(forward4, "x");
	set(forward4, "1\n");
	set(forward6, "1\n");
	value(forward4);
	value(forward6);
	through("on", packet, datagram4(packet, "10.1.0.2", "10.2.0.2", 9, 0, 20), 1);
	through("on", packet, datagram6(packet, "fd01::2", "fd02::2", 9, 20), 1);
	/* Errors: each to another sender, as they have a rate. */
	through("late", packet, datagram4(packet, "10.1.0.3", "10.2.0.2", 1, 0, 20), 1);
	through("late", packet, datagram6(packet, "fd01::3", "fd02::2", 1, 20), 1);
	through("no way", packet, datagram4(packet, "10.1.0.4", "10.3.0.2", 9, 0, 20), 1);
	through("no way", packet, datagram6(packet, "fd01::4", "fd03::2", 9, 20), 1);
	mtu("tun1", 1300);
	through("too long", packet, datagram4(packet, "10.1.0.5", "10.2.0.2", 9, 0x4000, 1400), 1);
	through("too long", packet, datagram6(packet, "fd01::5", "fd02::2", 9, 1400), 1);
	through("cut", packet, datagram4(packet, "10.1.0.2", "10.2.0.2", 9, 0, 1400), 2);
	mtu("tun1", 1500);
	/* Pieces go on as they are, the last one first. */
	length = datagram4(packet, "10.1.0.2", "10.2.0.2", 9, 0, 1992);
	for (int at = 1008; at >= 0; at -= 1008) {
		int bytes = at ? length - 20 - at : 1008;
		memcpy(piece, packet, 20);
		memcpy(piece + 20, packet + 20 + at, bytes);
		put(piece + 2, 20 + bytes);
		put(piece + 6, at / 8 | (at ? 0 : 0x2000));
		put(piece + 10, 0);
		put(piece + 10, fold(add(piece, 20)));
		through("piece", piece, 20 + bytes, 1);
	}
	length = datagram6(packet, "fd01::2", "fd02::2", 9, 1992);
	for (int at = 1008; at >= 0; at -= 1008) {
		int bytes = at ? length - 40 - at : 1008;
		uint8_t head[8] = { 17, 0, at >> 8, (at & 0xff) | !at, 1, 2, 3, 4 };
		memcpy(piece, packet, 40);
		memcpy(piece + 40, head, 8);
		memcpy(piece + 48, packet + 40 + at, bytes);
		put(piece + 4, 8 + bytes);
		piece[6] = 44;
		through("piece", piece, 48 + bytes, 1);
	}
	/* What does not go on. */
	static const char *const wrong[][2] = {
		{ "127.0.0.1", "10.2.0.2" }, { "0.0.0.0", "10.2.0.2" }, { "224.0.0.1", "10.2.0.2" }, { "255.255.255.255", "10.2.0.2" }, { "10.2.0.1", "10.2.0.2" },
		{ "10.1.0.2", "10.2.0.255" }, { "10.1.0.2", "224.0.0.9" }, { "10.1.0.2", "255.255.255.255" },
	};
	for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
		through(wrong[i][0], packet, datagram4(packet, wrong[i][0], wrong[i][1], 9, 0, 20), 0);
	through("::1", packet, datagram6(packet, "::1", "fd02::2", 9, 20), 0);
	through("ff0e::1", packet, datagram6(packet, "ff0e::1", "fd02::2", 9, 20), 0);
	through("to ff02::5", packet, datagram6(packet, "fd01::2", "ff02::5", 9, 20), 0);
	length = datagram4(packet, "10.1.0.2", "10.2.0.2", 9, 0, 20);
	packet[10] ^= 1;
	through("wrong sum", packet, length, 0);
	set(forward4, "0\n");
	set(forward6, "0\n");
	through("off", packet, datagram4(packet, "10.1.0.2", "10.2.0.2", 9, 0, 20), 0);
	through("off", packet, datagram6(packet, "fd01::2", "fd02::2", 9, 20), 0);
	value(forward4);
	value(forward6);
	return 0;
}
