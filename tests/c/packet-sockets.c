/* AF_PACKET (packet(7)): who may, names, frames of lo as they go and come, filters, counts, what is told beside a frame, a ring that is mapped. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define OURS 0x88b5
#ifndef SO_ATTACH_FILTER
#define SO_ATTACH_FILTER 26
#define SO_DETACH_FILTER 27
#endif
#define VERSION 10
#define HEADER_LENGTH 11
#define RESERVE 12

/* As packet(7) and Linux's documentation have them: not every C library brings the kernel's headers. */
struct sock_filter { uint16_t code; uint8_t jt, jf; uint32_t k; };
struct sock_fprog { uint16_t len; struct sock_filter *filter; };
struct tpacket_stats { uint32_t tp_packets, tp_drops; };
struct tpacket_auxdata { uint32_t tp_status, tp_len, tp_snaplen; uint16_t tp_mac, tp_net, tag, kind; };
struct tpacket_req { uint32_t tp_block_size, tp_block_nr, tp_frame_size, tp_frame_nr; };
struct tpacket2_hdr { uint32_t tp_status, tp_len, tp_snaplen; uint16_t tp_mac, tp_net; uint32_t tp_sec, tp_nsec; uint16_t tag, kind; uint8_t rest[4]; };

static const char *name(int number)
{
	static const struct { int number; const char *name; } names[] = {
		{ EPERM, "EPERM" }, { EINVAL, "EINVAL" }, { ENODEV, "ENODEV" }, { ENXIO, "ENXIO" }, { EAGAIN, "EAGAIN" }, { EBUSY, "EBUSY" }, { ENOENT, "ENOENT" },
		{ EOPNOTSUPP, "EOPNOTSUPP" }, { ESOCKTNOSUPPORT, "ESOCKTNOSUPPORT" }, { EMSGSIZE, "EMSGSIZE" }, { ENOPROTOOPT, "ENOPROTOOPT" },
	};
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].number == number)
			return names[i].name;
	return "another error";
}
#define CHECK(what) say(#what, what)

static void say(const char *what, long result)
{
	if (result < 0)
		printf("%s: %s\n", what, name(errno));
	else
		printf("%s: %ld\n", what, result);
}

static struct sockaddr_ll place(int interface, int protocol)
{
	struct sockaddr_ll ll = { .sll_family = AF_PACKET, .sll_ifindex = interface, .sll_protocol = htons(protocol), .sll_halen = 6 };
	return ll;
}

static int bound(int type, int interface, int protocol)
{
	int s = socket(AF_PACKET, type | SOCK_NONBLOCK, 0);
	struct sockaddr_ll ll = place(interface, protocol);
	if (s < 0 || bind(s, (void *)&ll, sizeof ll))
		perror("bound");
	return s;
}

/* Only frames of this protocol, and so many bytes of them. */
static int filtered(int s, int protocol, int bytes)
{
	struct sock_filter code[] = {
		{ 0x28, 0, 0, 12 }, { 0x15, 0, 1, protocol }, { 0x06, 0, 0, bytes }, { 0x06, 0, 0, 0 },
	};
	struct sock_fprog program = { 4, code };
	return setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

static void show(const char *what, int s)
{
	unsigned char frame[256];
	struct sockaddr_ll from;
	socklen_t length = sizeof from;
	memset(&from, 0xee, sizeof from);
	long n = recvfrom(s, frame, sizeof frame, MSG_TRUNC, (void *)&from, &length);
	if (n < 0) {
		printf("%s: %s\n", what, name(errno));
		return;
	}
	printf("%s: %ld bytes, first %02x, name %u: family %d protocol %04x interface %d hardware %d kind %d address %d\n", what, n, frame[0], length,
	       from.sll_family, ntohs(from.sll_protocol), from.sll_ifindex, from.sll_hatype, from.sll_pkttype, from.sll_halen);
}

static void statistics(int s)
{
	struct tpacket_stats stats;
	socklen_t length = sizeof stats;
	CHECK(getsockopt(s, SOL_PACKET, PACKET_STATISTICS, &stats, &length));
	printf("%u bytes: %u packets, %u lost\n", length, stats.tp_packets, stats.tp_drops);
}

int main(void)
{
	int lo = if_nametoindex("lo");
	unsigned char frame[100] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, OURS >> 8, OURS & 255, 'h', 'i' };
	struct sockaddr_ll ll;
	socklen_t length;
	setvbuf(stdout, NULL, _IONBF, 0);

	puts("-- who may");
	if (!fork()) {
		if (setgid(1000) || setuid(1000))
			_exit(1);
		CHECK(socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)));
		CHECK(socket(AF_PACKET, SOCK_DGRAM, 0));
		CHECK(socket(AF_PACKET, SOCK_STREAM, 0));
		_exit(0);
	}
	wait(NULL);
	CHECK(socket(AF_PACKET, SOCK_STREAM, 0));
	CHECK(socketpair(AF_PACKET, SOCK_RAW, 0, (int[2]){ 0 }));

	puts("-- names");
	int s = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
	ll = place(4711, OURS);
	CHECK(bind(s, (void *)&ll, sizeof ll));
	ll = place(lo, OURS);
	CHECK(bind(s, (void *)&ll, sizeof ll - 1));
	ll.sll_family = AF_INET;
	CHECK(bind(s, (void *)&ll, sizeof ll));
	ll.sll_family = AF_PACKET;
	CHECK(bind(s, (void *)&ll, sizeof ll));
	memset(&ll, 0xee, sizeof ll);
	length = sizeof ll;
	CHECK(getsockname(s, (void *)&ll, &length));
	printf("%u: family %d protocol %04x interface %d hardware %d address %d\n", length, ll.sll_family, ntohs(ll.sll_protocol), ll.sll_ifindex == lo,
	       ll.sll_hatype, ll.sll_halen);
	CHECK(getpeername(s, (void *)&ll, &length));
	CHECK(connect(s, (void *)&ll, sizeof ll));
	CHECK(listen(s, 1));
	CHECK(shutdown(s, SHUT_RDWR));

	puts("-- frames");
	int all = bound(SOCK_RAW, lo, ETH_P_ALL), cooked = bound(SOCK_DGRAM, lo, OURS);
	CHECK(filtered(all, OURS, 0xffff));
	CHECK(write(s, frame, 60));
	show("its own", s);
	show("its own again", s);
	show("all, going", all);
	show("all, coming", all);
	show("all", all);
	show("without the header", cooked);
	show("without the header", cooked);
	CHECK(write(s, frame, 13));
	CHECK(write(s, frame, 14));
	show("nothing but a header", all);
	show("nothing but a header", all);
	ll = place(lo, OURS);
	CHECK(sendto(cooked, "hello", 5, 0, (void *)&ll, sizeof ll));
	show("sent without the header", s);
	CHECK(sendto(cooked, "hello", 5, 0, (void *)&ll, sizeof ll - 1));
	ll = place(4711, OURS);
	CHECK(sendto(s, frame, 60, 0, (void *)&ll, sizeof ll));
	char *large = calloc(1, 70000);
	CHECK(write(s, large, 65551));
	CHECK(write(s, large, 70000));
	int nowhere = socket(AF_PACKET, SOCK_RAW, 0);
	CHECK(write(nowhere, frame, 60));
	struct pollfd ready = { all, POLLIN, 0 };
	while (recv(all, frame, 1, MSG_TRUNC) > 0)
		;
	CHECK(poll(&ready, 1, 0));
	statistics(all);
	statistics(all);

	puts("-- filters");
	struct sock_filter wrong[] = { { 0x05, 0, 0, 7 }, { 0x06, 0, 0, 1 } };
	struct sock_fprog program = { 2, wrong };
	frame[0] = 1;
	CHECK(setsockopt(all, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
	CHECK(setsockopt(all, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program - 1));
	program.len = 0;
	CHECK(setsockopt(all, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
	CHECK(filtered(all, OURS, 20));
	CHECK(write(s, frame, 60));
	show("cut", all);
	show("cut", all);
	while (recv(s, large, 100, 0) >= 0)
		;
	CHECK(setsockopt(s, SOL_SOCKET, SO_DETACH_FILTER, &program, 0));
	CHECK(setsockopt(s, SOL_SOCKET, SO_DETACH_FILTER, &program, 4));
	CHECK(filtered(s, OURS + 1, 20));
	memset(frame, 0, 6);
	CHECK(send(all, frame, 60, 0));
	show("refused", s);
	CHECK(setsockopt(s, SOL_SOCKET, SO_DETACH_FILTER, &program, 4));
	CHECK(send(all, frame, 60, 0));
	show("for this host", s);
	frame[0] = 2;
	CHECK(send(all, frame, 60, 0));
	show("for another one", s);
	memset(frame, 0xff, 6);
	CHECK(send(all, frame, 60, 0));
	show("for everybody", s);

	puts("-- what is told beside a frame");
	int on = 1;
	CHECK(setsockopt(cooked, SOL_PACKET, PACKET_AUXDATA, &on, sizeof on));
	while (recv(cooked, large, 100, 0) >= 0)
		;
	CHECK(write(s, frame, 60));
	char control[100];
	struct iovec vector = { large, 100 };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
	CHECK(recvmsg(cooked, &message, 0));
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	if (head) {
		struct tpacket_auxdata *told = (void *)CMSG_DATA(head);
		printf("level %d type %d: user %d, length %u, kept %u, link header at %u, network's at %u\n", head->cmsg_level, head->cmsg_type,
		       told->tp_status & 1, told->tp_len, told->tp_snaplen, told->tp_mac, told->tp_net);
	}
	struct packet_mreq member = { lo, PACKET_MR_PROMISC, 6, { 0 } };
	CHECK(setsockopt(s, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &member, sizeof member));
	CHECK(setsockopt(s, SOL_PACKET, PACKET_DROP_MEMBERSHIP, &member, sizeof member));
	CHECK(setsockopt(s, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &member, 15));
	member.mr_ifindex = 4711;
	CHECK(setsockopt(s, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &member, sizeof member));
	CHECK(setsockopt(s, SOL_PACKET, 4711, &on, sizeof on));
	length = sizeof on;
	CHECK(getsockopt(s, SOL_PACKET, 4711, &on, &length));

	puts("-- a ring");
	int ring = bound(SOCK_RAW, lo, OURS), version = 4711;
	length = sizeof version;
	CHECK(getsockopt(ring, SOL_PACKET, HEADER_LENGTH, &version, &length));
	version = 1;
	CHECK(getsockopt(ring, SOL_PACKET, HEADER_LENGTH, &version, &length));
	printf("header %d\n", version);
	version = 1;
	CHECK(setsockopt(ring, SOL_PACKET, VERSION, &version, sizeof version));
	int reserve = 4;
	CHECK(setsockopt(ring, SOL_PACKET, RESERVE, &reserve, sizeof reserve));
	CHECK((long)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0));
	struct tpacket_req request = { 4096, 2, 2048, 5 };
	CHECK(setsockopt(ring, SOL_PACKET, PACKET_RX_RING, &request, sizeof request));
	request.tp_frame_nr = 4;
	CHECK(setsockopt(ring, SOL_PACKET, PACKET_RX_RING, &request, sizeof request));
	CHECK(setsockopt(ring, SOL_PACKET, PACKET_RX_RING, &request, sizeof request));
	CHECK(setsockopt(ring, SOL_PACKET, VERSION, &version, sizeof version));
	CHECK((long)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0));
	char *slots = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
	printf("mapped: %d\n", slots != MAP_FAILED);
	if (slots == MAP_FAILED)
		return 1;
	ready.fd = ring;
	CHECK(poll(&ready, 1, 0));
	for (int i = 0; i < 6; i++) {
		frame[20] = i;
		if (write(s, frame, 50 + i) < 0)
			perror("write");
	}
	CHECK(poll(&ready, 1, 1000));
	for (int i = 0; i < 4; i++) {
		volatile struct tpacket2_hdr *slot = (void *)(slots + i * 2048);
		struct sockaddr_ll *from = (void *)((char *)slot + sizeof *slot);
		printf("user %d, %u bytes, %u kept, at %u and %u, time %d, from %d %04x %d, text %d\n", slot->tp_status & 1, slot->tp_len, slot->tp_snaplen,
		       slot->tp_mac, slot->tp_net, slot->tp_sec > 1000000000, from->sll_ifindex == lo, ntohs(from->sll_protocol), from->sll_pkttype,
		       ((unsigned char *)slot)[slot->tp_mac + 20]);
		slot->tp_status = 0;
	}
	CHECK(poll(&ready, 1, 0));
	statistics(ring);
	/* Among several: nobody is told that slots were given back, but soon it is so. */
	struct pollfd two[] = { { ring, POLLIN, 0 }, { nowhere, POLLIN, 0 } };
	CHECK(write(s, frame, 60));
	CHECK(poll(two, 2, 1000));
	((volatile struct tpacket2_hdr *)slots)->tp_status = 0;
	int turns = 0;
	while (poll(two, 2, 5) && turns < 100)
		turns += 1 + usleep(1000);
	printf("nothing to read: %d\n", turns < 100);
	for (int i = 0; i < 3; i++)
		if (write(s, frame, 60) < 0 || poll(two, 2, 1000) != 1)
			puts("nothing comes");
	for (int i = 1; i < 4; i++)
		((volatile struct tpacket2_hdr *)(slots + i * 2048))->tp_status = 0;
	CHECK(write(s, frame, 60));
	CHECK(poll(&ready, 1, 1000));
	CHECK(recv(ring, large, 100, 0));
	printf("it goes round: %u\n", ((struct tpacket2_hdr *)slots)->tp_len);
	CHECK(munmap(slots, 8192));
	CHECK(close(ring));
	free(large);
	return 0;
}
