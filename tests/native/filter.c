/* The packet filter between two interfaces of TUN, tun0 inside and tun1 outside: replies through a translation, a policy that drops, counters, refusals, rules
 * that are wrong, and a filter that is ended in the midst of it. */
#define _GNU_SOURCE
#include "../c/checksum.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <x86intrin.h>

#define TUNSETIFF 0x400454ca
#define INSIDE 0
#define OUTSIDE 1

static int ends[2];

static int port(const uint8_t *ip, int at)
{
	return ip[20 + 2 * at] << 8 | ip[21 + 2 * at];
}

static void interface(int number)
{
	struct ifreq request = { .ifr_flags = 0x1001 };
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
	close(control);
	/* RTM_NEWADDR: fdNN::1/64. */
	struct {
		uint32_t length;
		uint16_t type, flags;
		uint32_t sequence, port;
		uint8_t family, bits, own_flags, scope;
		uint32_t index;
		uint16_t size, kind;
		uint8_t address[16];
	} message = { 44, 20, 5, 1, 0, AF_INET6, 64, 2, 0, if_nametoindex(request.ifr_name), 20, 2, { 0xfd, number, [15] = 1 } };
	char answer[200];
	int link = socket(AF_NETLINK, SOCK_RAW, 0);
	send(link, &message, sizeof message, 0);
	recv(link, answer, sizeof answer, 0);
	close(link);
	ends[number - 1] = fd;
}

/* A packet of UDP (17), TCP (6: a segment with these flags) or an echo (1: its type and number are the ports). */
static int made(uint8_t *to, int protocol, const char *source, int from, const char *destination, int into, int flags)
{
	int length = protocol == 6 ? 40 : 32;
	memset(to, 0, length);
	to[0] = 0x45;
	put(to + 2, length);
	to[8] = 9;
	to[9] = protocol;
	inet_pton(AF_INET, source, to + 12);
	inet_pton(AF_INET, destination, to + 16);
	put(to + 10, fold(add(to, 20)));
	uint8_t *above = to + 20;
	int sum = 0;
	if (protocol == 1) {
		above[0] = from;
		put(above + 4, into);
		sum = 2;
	} else {
		put(above, from);
		put(above + 2, into);
		sum = protocol == 6 ? 16 : 6;
		if (protocol == 6) {
			above[12] = 5 << 4;
			above[13] = flags;
		} else {
			put(above + 4, 12);
		}
	}
	put(above + sum, fold(add(above, length - 20) + (protocol == 1 ? 0 : add(to + 12, 8) + protocol + length - 20)));
	return length;
}

/* A datagram of IPv6 goes in at one end; what comes out at the other. */
static void pass6(const char *what, int end, const char *source, int from, const char *destination, int into)
{
	uint8_t packet[60] = { 0x60, [5] = 12, [6] = 17, [7] = 9 };
	char one[64], other[64];
	inet_pton(AF_INET6, source, packet + 8);
	inet_pton(AF_INET6, destination, packet + 24);
	put(packet + 40, from);
	put(packet + 42, into);
	put(packet + 44, 12);
	put(packet + 46, fold(add(packet + 8, 44) + 17 + 12));
	if (write(ends[end], packet, 52) != 52)
		perror(what);
	struct pollfd ready = { ends[!end], POLLIN, 0 };
	while (poll(&ready, 1, 100) > 0) {
		uint8_t came[2000];
		if (read(ends[!end], came, sizeof came) != 52 || came[6] != 17)
			continue;
		inet_ntop(AF_INET6, came + 8, one, sizeof one);
		inet_ntop(AF_INET6, came + 24, other, sizeof other);
		printf("%s: %s to %s, %s, ports %d to %d\n", what, one, other, fold(add(came + 8, 44) + 17 + 12) ? "wrong" : "right", came[40] << 8 | came[41],
		       came[42] << 8 | came[43]);
		return;
	}
	printf("%s: nothing\n", what);
}

static int right(const uint8_t *ip, int length)
{
	int pseudo = ip[9] == 1 ? 0 : add(ip + 12, 8) + ip[9] + length - 20;
	return fold(add(ip, 20)) == 0 && fold(add(ip + 20, length - 20) + pseudo) == 0;
}

/* What comes out at an end, or nothing: its length. */
static int next(int end, uint8_t *to, int patience)
{
	struct pollfd ready = { ends[end], POLLIN, 0 };
	for (;;) {
		if (poll(&ready, 1, patience) <= 0)
			return 0;
		int length = read(ends[end], to, 2000);
		if (length <= 0 || to[0] >> 4 == 4)
			return length;
	}
}

static void show(const char *what, const uint8_t *ip, int length)
{
	char source[64], destination[64];
	if (length <= 0) {
		printf("%s: nothing\n", what);
		return;
	}
	inet_ntop(AF_INET, ip + 12, source, sizeof source);
	inet_ntop(AF_INET, ip + 16, destination, sizeof destination);
	printf("%s: %s to %s, protocol %d, %s", what, source, destination, ip[9], right(ip, length) ? "right" : "wrong");
	if (ip[9] != 1)
		printf(", ports %d to %d%s", port(ip, 0), port(ip, 1), ip[9] == 6 && ip[33] & 4 ? ", reset" : "");
	else if (ip[20] == 0 || ip[20] == 8)
		printf(", echo %d of %d", ip[20], port(ip, 2));
	else
		printf(", error %d %d", ip[20], ip[21]);
	printf("\n");
}

/* It goes in at one end; what comes out at the other. */
static int pass(const char *what, int end, uint8_t *packet, int length)
{
	if (write(ends[end], packet, length) != length)
		printf("%s: %s\n", what, strerror(errno));
	length = next(!end, packet, 100);
	show(what, packet, length);
	return length;
}

static void rules(const char *text)
{
	int fd = open("/proc/net/filter/rules", O_WRONLY | O_TRUNC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0) {
		char told[300] = { 0 };
		printf("rules: %s\n", strerror(errno));
		int why = open("/proc/net/filter/error", O_RDONLY);
		if (read(why, told, sizeof told - 1) > 0)
			printf("%s", told);
		close(why);
	}
	close(fd);
}

/* Lines of a file that have this. */
static void lines(const char *file, const char *with)
{
	char line[400], path[100];
	snprintf(path, sizeof path, "/proc/net/filter/%s", file);
	FILE *from = fopen(path, "r");
	while (from && fgets(line, sizeof line, from))
		if (strstr(line, with))
			printf("%s: %s", file, *file == 'c' ? strstr(line, with) : line + strspn(line, "\t"));
	if (from)
		fclose(from);
}

/* Lines of the log that have this, from there on. */
static void logged(const char *with)
{
	char line[1000];
	ssize_t length;
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	while ((length = read(log, line, sizeof line - 1)) > 0) {
		line[length] = 0;
		if (strstr(line, with))
			printf("log: %s", strstr(line, with));
	}
	close(log);
}

static void set(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		perror(path);
	close(fd);
}

static const char all[] =
	"table inet nat {\n"
	"	chain out { type nat hook postrouting priority srcnat; oifname \"tun1\" masquerade }\n"
	"	chain in { type nat hook prerouting priority dstnat; iifname tun1 tcp dport 8080 dnat to 10.1.0.9:80 }\n"
	"}\n"
	"table inet filter {\n"
	"	chain forward {\n"
	"		type filter hook forward priority 0; policy drop;\n"
	"		ct state established,related counter accept\n"
	"		iifname \"tun0\" tcp dport 25 counter reject with tcp reset\n"
	"		iifname \"tun0\" udp dport 137 counter reject with icmp type admin-prohibited\n"
	"		iifname \"tun0\" counter accept\n"
	"		ip daddr 10.1.0.9 tcp dport 80 accept\n"
	"	}\n"
	"	chain input { type filter hook input priority 0; policy drop; iifname tun0 icmp type echo-request accept }\n"
	"}\n";

/* Chains that lead to others, named sets, flags of TCP, a line for the log. */
static const char chains[] =
	"table inet filter {\n"
	"	set friends { type ipv4_addr; flags interval; elements = { 10.1.0.8/30, 10.1.0.2 } }\n"
	"	set open { type inet_service; elements = { 53, 5000-5010 } }\n"
	"	chain forward {\n"
	"		type filter hook forward priority 0; policy drop;\n"
	"		ct state established,related accept\n"
	"		iifname tun0 jump inside\n"
	"		log prefix \"dropped: \" drop\n"
	"	}\n"
	"	chain inside { udp dport @open accept; tcp flags & (fin|syn|rst|ack) != syn return; tcp dport 22 goto ssh; accept }\n"
	"	chain ssh { ip saddr @friends accept }\n"
	"}\n";

int main(int argc, char **argv)
{
	uint8_t packet[2000], back[2000];
	char inside[] = "10.1.0.2", server[] = "10.2.0.9", own[] = "10.2.0.1";
	int length;
	interface(1);
	interface(2);
	set("/proc/sys/net/ipv4/ip_forward", "1\n");
	set("/proc/sys/net/ipv6/conf/all/forwarding", "1\n");
	pass("no rules", INSIDE, packet, made(packet, 17, inside, 5000, server, 53, 0));
	rules(all);
	/* Two machines inside with the same port, and each its replies. */
	pass("out", INSIDE, packet, made(packet, 17, inside, 5000, server, 53, 0));
	length = made(packet, 17, "10.1.0.3", 5000, server, 53, 0);
	write(ends[INSIDE], packet, length);
	next(OUTSIDE, packet, 100);
	int other = port(packet, 0);
	printf("another: from %d.%d.%d.%d, a port of its own: %s\n", packet[12], packet[13], packet[14], packet[15], other != 5000 && other > 1023 ? "yes" : "no");
	pass("reply", OUTSIDE, back, made(back, 17, server, 53, own, 5000, 0));
	pass("reply", OUTSIDE, back, made(back, 17, server, 53, own, other, 0));
	pass("stranger", OUTSIDE, back, made(back, 17, server, 54, own, 5000, 0));
	pass("stranger", OUTSIDE, back, made(back, 17, server, 53, inside, 5000, 0));
	/* A connection, an echo, an error about it. */
	pass("syn", INSIDE, packet, made(packet, 6, inside, 6000, server, 80, 2));
	pass("syn, ack", OUTSIDE, packet, made(packet, 6, server, 80, own, 6000, 18));
	pass("echo", INSIDE, packet, made(packet, 1, inside, 8, server, 77, 0));
	pass("echo reply", OUTSIDE, packet, made(packet, 1, server, 0, own, 77, 0));
	length = made(packet, 17, inside, 5000, server, 53, 0);
	write(ends[INSIDE], packet, length);
	length = next(OUTSIDE, packet, 100);
	memset(back, 0, 28);
	made(back, 1, "10.2.0.7", 11, own, 0, 0);
	memcpy(back + 28, packet, length);
	put(back + 2, 28 + length);
	put(back + 10, 0);
	put(back + 10, fold(add(back, 20)));
	put(back + 22, 0);
	put(back + 22, fold(add(back + 20, 8 + length)));
	length = pass("error", OUTSIDE, back, 28 + length);
	if (length > 0)
		printf("it quotes a packet of %d.%d.%d.%d, port %d\n", back[40], back[41], back[42], back[43], back[48] << 8 | back[49]);
	/* A service inside. */
	pass("from outside", OUTSIDE, packet, made(packet, 6, server, 7000, own, 8080, 2));
	pass("its answer", INSIDE, packet, made(packet, 6, "10.1.0.9", 80, server, 7000, 18));
	/* IPv6. */
	pass6("six", INSIDE, "fd01::2", 5000, "fd02::9", 53);
	pass6("six, reply", OUTSIDE, "fd02::9", 53, "fd02::1", 5000);
	pass6("six, stranger", OUTSIDE, "fd02::9", 54, "fd01::2", 5000);
	/* Refused, and told. */
	length = made(packet, 6, inside, 6001, server, 25, 2);
	write(ends[INSIDE], packet, length);
	show("refused", packet, next(INSIDE, packet, 100));
	length = made(packet, 17, inside, 6002, server, 137, 0);
	write(ends[INSIDE], packet, length);
	show("refused", packet, next(INSIDE, packet, 100));
	/* This machine's own: a policy that drops. */
	length = made(packet, 1, inside, 8, "10.1.0.1", 5, 0);
	write(ends[INSIDE], packet, length);
	show("own echo", packet, next(INSIDE, packet, 100));
	length = made(packet, 17, inside, 9, "10.1.0.1", 9, 0);
	write(ends[INSIDE], packet, length);
	show("own port", packet, next(INSIDE, packet, 100));
	lines("rules", "counter");
	lines("connections", "dropped");
	lines("connections", "sport=6000");
	/* Wrong rules change nothing. */
	rules("table inet filter {\n	chain input { type filter hook inptu priority 0 }\n}\n");
	pass("still", OUTSIDE, back, made(back, 17, server, 53, own, 5000, 0));
	/* The filter ends: what comes meanwhile is lost, and its successor has the rules. */
	fflush(stdout);
	if (system("PATH=$PATH:/usr/local/sbin cairn-ctl restart filter") != 0)
		printf("it was not ended\n");
	pass("stranger", OUTSIDE, back, made(back, 17, server, 53, own, 5000, 0));
	pass("out", INSIDE, packet, made(packet, 17, inside, 5000, server, 53, 0));
	pass("reply", OUTSIDE, back, made(back, 17, server, 53, own, 5000, 0));
	lines("rules", "masquerade");
	rules("flush ruleset\n");
	lines("rules", "");
	pass("no rules", INSIDE, packet, made(packet, 17, inside, 5000, server, 53, 0));
	rules(chains);
	pass("open", INSIDE, packet, made(packet, 17, inside, 5002, server, 53, 0));
	pass("not open", INSIDE, packet, made(packet, 17, inside, 5002, server, 137, 0));
	pass("ssh", INSIDE, packet, made(packet, 6, inside, 6003, server, 22, 2));
	pass("others' ssh", INSIDE, packet, made(packet, 6, "10.1.0.3", 6003, server, 22, 2));
	pass("no beginning", INSIDE, packet, made(packet, 6, inside, 6004, server, 80, 16));
	logged("dropped: IN");
	rules("table inet f {\n	chain a { jump b }\n	chain b { jump a }\n}\n");
	lines("rules", "@");
	rules("flush ruleset\n");
	/* With an argument: what a packet costs, written and read, without rules, with some, and with a translation (./cairn exec --icount). */
	for (int kind = 0; argc > 1 && kind < 3; kind++) {
		if (kind)
			rules(kind == 1 ? "table inet f { chain f { type filter hook forward priority 0; ct state established,related accept; iifname tun0 accept } }\n" : all);
		length = made(packet, 17, inside, 5000, server, 53, 0);
		uint64_t least = -1;
		for (int i = 0; i < atoi(argv[1]); i++) {
			uint64_t begun = __rdtsc();
			write(ends[INSIDE], packet, length);
			read(ends[OUTSIDE], back, sizeof back);
			uint64_t took = __rdtsc() - begun;
			least = took < least ? took : least;
		}
		printf("%d: %lu ticks\n", kind, (unsigned long)least);
	}
	return 0;
}
