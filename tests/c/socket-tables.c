/* What /proc/net tells of local, raw and packet sockets: kinds, states, names, and the number that /proc/self/fd shows. */
#include <arpa/inet.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* The number of a socket, as programs find it. */
static unsigned long number(int s)
{
	char path[64], target[64] = "";
	struct stat about;
	unsigned long found = 0;
	snprintf(path, sizeof path, "/proc/self/fd/%d", s);
	if (readlink(path, target, sizeof target - 1) < 0 || sscanf(target, "socket:[%lu]", &found) != 1)
		printf("no socket: %s\n", target);
	if (fstat(s, &about) || about.st_ino != found)
		puts("another number");
	return found;
}

static void local(const char *what, int s)
{
	char line[512], name[256];
	unsigned long wanted = number(s), ino;
	unsigned flags, type, state, protocol, found = 0;
	FILE *table = fopen("/proc/net/unix", "r");
	while (table && fgets(line, sizeof line, table)) {
		*name = 0;
		if (sscanf(line, "%*x: %*x %x %x %x %x %lu %255s", &protocol, &flags, &type, &state, &ino, name) < 5 || ino != wanted)
			continue;
		printf("%s: protocol %u flags %x type %u state %u name %s\n", what, protocol, flags, type, state, name);
		found++;
	}
	if (found != 1)
		printf("%s: %u times\n", what, found);
	fclose(table);
}

static void raw(const char *path, int s)
{
	char line[512], local[64], remote[64];
	unsigned long wanted = number(s), ino;
	unsigned state, slot, found = 0;
	FILE *table = fopen(path, "r");
	while (table && fgets(line, sizeof line, table)) {
		if (sscanf(line, "%u: %63s %63s %x %*s %*s %*s %*u %*u %lu", &slot, local, remote, &state, &ino) != 5 || ino != wanted)
			continue;
		printf("%s: %s %s state %u\n", path, local, remote, state);
		found++;
	}
	if (found != 1)
		printf("%s: %u times\n", path, found);
	fclose(table);
}

static void packet(int s)
{
	char line[512];
	unsigned long wanted = number(s), ino;
	unsigned type, protocol, interface, runs, found = 0;
	FILE *table = fopen("/proc/net/packet", "r");
	while (table && fgets(line, sizeof line, table)) {
		if (sscanf(line, "%*s %*u %u %x %u %u %*u %*u %lu", &type, &protocol, &interface, &runs, &ino) != 5 || ino != wanted)
			continue;
		printf("packet: type %u protocol %04x interface %u runs %u\n", type, protocol, interface, runs);
		found++;
	}
	if (found != 1)
		printf("packet: %u times\n", found);
	fclose(table);
}

int main(void)
{
	struct sockaddr_un name = { AF_UNIX, "\0socket-tables" }, path = { AF_UNIX, "socket-tables.path" };
	socklen_t length = offsetof(struct sockaddr_un, sun_path) + 14;
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0), datagram = socket(AF_UNIX, SOCK_DGRAM, 0), two[2];
	unlink(path.sun_path);
	if (bind(listener, (void *)&name, length) || bind(datagram, (void *)&path, sizeof path) || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, two))
		return 1;
	local("bound", listener);
	if (listen(listener, 5))
		return 1;
	local("listening", listener);
	local("fresh", client);
	if (connect(client, (void *)&name, length))
		return 1;
	local("connected", client);
	local("accepted", accept(listener, NULL, NULL));
	local("datagrams", datagram);
	local("pair", two[0]);
	local("pair", two[1]);
	close(two[1]);
	unlink(path.sun_path);

	int v4 = socket(AF_INET, SOCK_RAW, 254), v6 = socket(AF_INET6, SOCK_RAW, 253);
	struct sockaddr_in loopback = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	raw("/proc/net/raw", v4);
	raw("/proc/net/raw6", v6);
	if (bind(v4, (void *)&loopback, sizeof loopback) || connect(v4, (void *)&loopback, sizeof loopback))
		return 1;
	raw("/proc/net/raw", v4);

	int frames = socket(AF_PACKET, SOCK_DGRAM, 0);
	packet(frames);
	struct sockaddr_ll ll = { .sll_family = AF_PACKET, .sll_ifindex = if_nametoindex("lo"), .sll_protocol = htons(0x88b5) };
	if (bind(frames, (void *)&ll, sizeof ll))
		return 1;
	packet(frames);
	return 0;
}
