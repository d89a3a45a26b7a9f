/* TUN and TAP: /dev/net/tun, its requests and their errors, packets of IP and frames both ways, who may, what stays, what goes with an interface. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* linux/if_tun.h: not every C library brings the kernel's headers. */
#define TUNSETIFF 0x400454ca
#define TUNSETPERSIST 0x400454cb
#define TUNSETOWNER 0x400454cc
#define TUNSETLINK 0x400454cd
#define TUNSETGROUP 0x400454ce
#define TUNGETFEATURES 0x800454cf
#define TUNSETOFFLOAD 0x400454d0
#define TUNGETIFF 0x800454d2
#define TUN 1
#define TAP 2
#define NO_PI 0x1000
#define ONE_QUEUE 0x2000
#define EXCL 0x8000

static const char *name(int number)
{
	static const struct { int number; const char *name; } names[] = {
		{ EPERM, "EPERM" }, { EINVAL, "EINVAL" }, { ENODEV, "ENODEV" }, { EAGAIN, "EAGAIN" }, { EBUSY, "EBUSY" }, { EEXIST, "EEXIST" }, { EIO, "EIO" },
		{ EBADFD, "EBADFD" }, { EFAULT, "EFAULT" }, { ENETUNREACH, "ENETUNREACH" }, { ENETDOWN, "ENETDOWN" }, { ENOTTY, "ENOTTY" }, { ENOENT, "ENOENT" },
	};
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].number == number)
			return names[i].name;
	return strerror(number);
}
#define CHECK(what) say(#what, what)

static long say(const char *what, long result)
{
	if (result < 0)
		printf("%s: %s\n", what, name(errno));
	else
		printf("%s: %ld\n", what, result);
	return result;
}

static int control;

static int opened(int flags)
{
	int fd = open("/dev/net/tun", O_RDWR | flags);
	if (fd < 0)
		perror("/dev/net/tun");
	return fd;
}

/* The name that an interface got, or why none. */
static int take(int fd, const char *asked, int flags)
{
	struct ifreq request = { .ifr_flags = flags };
	strncpy(request.ifr_name, asked, IFNAMSIZ);
	int result = ioctl(fd, TUNSETIFF, &request);
	printf("interface '%s' %04x: %s\n", asked, flags, result ? name(errno) : request.ifr_name);
	return result;
}

static void flags_of(const char *interface)
{
	struct ifreq request = { 0 };
	strcpy(request.ifr_name, interface);
	if (ioctl(control, SIOCGIFFLAGS, &request))
		printf("%s: %s\n", interface, name(errno));
	else
		printf("%s: flags %04x\n", interface, (unsigned short)request.ifr_flags);
}

/* The same when it runs, or does not any more: Linux looks at carriers now and then. */
static void flags_at_last(const char *interface, int running)
{
	struct ifreq request = { 0 };
	strcpy(request.ifr_name, interface);
	for (int i = 0; i < 100 && !ioctl(control, SIOCGIFFLAGS, &request) && !(request.ifr_flags & IFF_RUNNING) == running; i++)
		usleep(50000);
	flags_of(interface);
}

static void up(const char *interface, int is_up)
{
	struct ifreq request = { 0 };
	strcpy(request.ifr_name, interface);
	ioctl(control, SIOCGIFFLAGS, &request);
	request.ifr_flags = is_up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
	if (ioctl(control, SIOCSIFFLAGS, &request))
		perror("SIOCSIFFLAGS");
}

static void configure(const char *interface, const char *address)
{
	struct ifreq request = { 0 };
	strcpy(request.ifr_name, interface);
	struct sockaddr_in in = { .sin_family = AF_INET };
	inet_aton(address, &in.sin_addr);
	memcpy(&request.ifr_addr, &in, sizeof in);
	if (ioctl(control, SIOCSIFADDR, &request))
		perror("SIOCSIFADDR");
	inet_aton("255.255.255.0", &in.sin_addr);
	memcpy(&request.ifr_addr, &in, sizeof in);
	if (ioctl(control, SIOCSIFNETMASK, &request))
		perror("SIOCSIFNETMASK");
	up(interface, 1);
}

static uint16_t sum(const void *data, int length)
{
	const uint8_t *bytes = data;
	uint32_t total = 0;
	for (int i = 0; i < length; i++)
		total += i & 1 ? bytes[i] : bytes[i] << 8;
	while (total >> 16)
		total = (total & 0xffff) + (total >> 16);
	return htons(~total);
}

/* A packet of IPv4 from .2 to .1 of this network: its length. */
static int packet(uint8_t *to, int network, int protocol, const void *payload, int length)
{
	uint8_t head[20] = { 0x45, 0, 0, 20 + length, 0, 1, 0, 0, 64, protocol, 0, 0, 10, network, 0, 2, 10, network, 0, 1 };
	uint16_t own = sum(head, 20);
	memcpy(head + 10, &own, 2);
	memcpy(to, head, 20);
	memcpy(to + 20, payload, length);
	return 20 + length;
}

static int datagram(uint8_t *to, int network, int port, const char *text)
{
	uint8_t udp[100] = { 0, 9, port >> 8, port, 0, 8 + strlen(text) };
	memcpy(udp + 8, text, strlen(text));
	return packet(to, network, IPPROTO_UDP, udp, 8 + strlen(text));
}

/* The next packet that is not of IPv6: of that a system says things by itself. `frame`: it is one, behind `struct tun_pi`. */
static int next(int fd, uint8_t *to, int room, int frame)
{
	for (;;) {
		int length = read(fd, to, room);
		if (length < 0)
			return length;
		int v6 = frame ? to[4 + 12] == 0x86 && to[4 + 13] == 0xdd : to[0] >> 4 == 6;
		if (!v6)
			return length;
	}
}

static void drain(int fd)
{
	uint8_t bytes[2000];
	while (read(fd, bytes, sizeof bytes) > 0)
		;
}

static int datagrams(const char *address, int port)
{
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	inet_aton(address, &in.sin_addr);
	if (bind(s, (void *)&in, sizeof in))
		perror("bind");
	return s;
}

static long out(int s, const char *address, const char *text)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(9) };
	inet_aton(address, &in.sin_addr);
	return sendto(s, text, strlen(text), 0, (void *)&in, sizeof in);
}

static void received(const char *what, int s)
{
	char text[200];
	struct sockaddr_in from;
	socklen_t size = sizeof from;
	int length = recvfrom(s, text, sizeof text - 1, 0, (void *)&from, &size);
	if (length < 0) {
		printf("%s: %s\n", what, name(errno));
		return;
	}
	text[length] = 0;
	printf("%s: '%s' from %s:%d\n", what, text, inet_ntoa(from.sin_addr), ntohs(from.sin_port));
}

static void show(const char *what, const uint8_t *ip, int length)
{
	if (length < 20) {
		printf("%s: %d bytes, %s\n", what, length, length < 0 ? name(errno) : "no packet");
		return;
	}
	printf("%s: %d bytes, %d.%d.%d.%d to %d.%d.%d.%d, protocol %d, header %s\n", what, length, ip[12], ip[13], ip[14], ip[15], ip[16], ip[17], ip[18], ip[19],
	       ip[9], sum(ip, 20) ? "wrong" : "right");
	if (ip[9] == IPPROTO_UDP)
		printf("  to port %d: '%.*s'\n", ip[22] << 8 | ip[23], length - 28, (const char *)ip + 28);
	if (ip[9] == IPPROTO_ICMP)
		printf("  type %d, sum %s\n", ip[20], sum(ip + 20, length - 20) ? "wrong" : "right");
}

static void polled(const char *what, int fd)
{
	struct pollfd ready = { fd, POLLIN | POLLOUT, 0 };
	int result = poll(&ready, 1, 0);
	printf("%s: poll %d, %02x\n", what, result, ready.revents);
}

/* As another user, in a process of its own. */
static void as(int uid, void (*what)(void))
{
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
			perror("setresuid");
		what();
		fflush(stdout);
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	if (status)
		printf("status %x\n", status);
}

static void makes(void)
{
	int fd = opened(0);
	printf("user %d: ", getuid());
	take(fd, "", TUN | NO_PI);
}

static void takes(void)
{
	int fd = opened(0);
	printf("user %d: ", getuid());
	flags_at_last("keep", take(fd, "keep", TUN | NO_PI) == 0);
	printf("user %d: ", getuid());
	CHECK(ioctl(fd, TUNSETPERSIST, 1));
}

static void takes_last(void)
{
	int fd = opened(0);
	printf("user %d: ", getuid());
	take(fd, "keep", TUN | NO_PI);
	CHECK(ioctl(fd, TUNSETPERSIST, 0));
}

/* Bytes and packets that came by an interface, and those lost of them. */
static void counted(const char *interface)
{
	char line[300], *at;
	unsigned long bytes, packets, errors, lost;
	FILE *file = fopen("/proc/net/dev", "r");
	while (file && fgets(line, sizeof line, file))
		if ((at = strstr(line, interface)) && sscanf(at + strlen(interface) + 1, "%lu %lu %lu %lu", &bytes, &packets, &errors, &lost) == 4)
			printf("%s: %lu bytes, %lu packets came, %lu were lost\n", interface, bytes, packets, lost);
	if (file)
		fclose(file);
}

static void before_an_interface(void)
{
	struct stat stat_of;
	/* What udev does on Linux. */
	if (chmod("/dev/net/tun", 0666) && errno != EROFS && errno != EPERM)
		perror("chmod");
	CHECK(stat("/dev/net/tun", &stat_of));
	printf("mode %o, device %u:%u\n", stat_of.st_mode, major(stat_of.st_rdev), minor(stat_of.st_rdev));
	int fd = opened(O_NONBLOCK);
	char byte[100] = { 0 }, path[100] = { 0 };
	sprintf(path, "/proc/self/fd/%d", fd);
	if (readlink(path, byte, sizeof byte - 1) > 0)
		printf("it is %s\n", byte);
	CHECK(read(fd, byte, sizeof byte));
	CHECK(write(fd, byte, sizeof byte));
	polled("nothing", fd);
	struct ifreq request = { 0 };
	CHECK(ioctl(fd, TUNGETIFF, &request));
	CHECK(ioctl(fd, TUNSETPERSIST, 1));
	CHECK(ioctl(fd, TUNSETIFF, (void *)8));
	unsigned features = 0;
	CHECK(ioctl(fd, TUNGETFEATURES, &features));
	printf("features %04x\n", features & (TUN | TAP | NO_PI | ONE_QUEUE));
	take(fd, "", 0);
	take(fd, "", NO_PI);
	take(fd, "lo", TUN | NO_PI);
	take(fd, "a/b", TUN | NO_PI);
	take(fd, ".", TUN | NO_PI);
	take(fd, "a b", TUN | NO_PI);
	take(fd, "%d%d", TUN | NO_PI);
	take(fd, "%x", TUN | NO_PI);
	as(1000, makes);
	close(fd);
}

static void packets_of_a_tun(void)
{
	uint8_t bytes[2000], back[200];
	int length, fd = opened(O_NONBLOCK), other = opened(O_NONBLOCK);
	take(fd, "", TUN | NO_PI);
	take(fd, "", TUN | NO_PI);
	take(other, "tun0", TUN | NO_PI);
	take(other, "tun0", TUN | NO_PI | EXCL);
	take(other, "tun0", TAP | NO_PI);
	take(other, "tun%d", TUN);
	close(other);
	flags_of("tun1");
	struct ifreq request = { 0 };
	CHECK(ioctl(fd, TUNGETIFF, &request));
	printf("%s %04x\n", request.ifr_name, (unsigned short)request.ifr_flags);
	flags_of("tun0");
	length = datagram(back, 7, 5000, "in");
	CHECK(write(fd, back, length));
	CHECK(write(fd, "", 0));
	CHECK(read(fd, bytes, sizeof bytes));
	polled("down", fd);
	CHECK(ioctl(fd, TUNSETLINK, 1));
	CHECK(ioctl(fd, TUNSETLINK, 65534));
	configure("tun0", "10.7.0.1");
	flags_of("tun0");
	CHECK(ioctl(fd, TUNSETLINK, 1));
	CHECK(ioctl(fd, TUNSETOFFLOAD, 0));
	CHECK(ioctl(fd, 0x5401, &request));
	strcpy(request.ifr_name, "tun0");
	CHECK(ioctl(control, SIOCGIFHWADDR, &request));
	printf("hardware %d\n", request.ifr_hwaddr.sa_family);
	CHECK(ioctl(control, SIOCGIFMTU, &request));
	printf("mtu %d\n", request.ifr_mtu);
	CHECK(ioctl(control, SIOCGIFTXQLEN, &request));
	printf("queue %d\n", request.ifr_qlen);

	int s = datagrams("10.7.0.1", 5000);
	drain(fd);
	CHECK(out(s, "10.7.0.2", "hello"));
	length = next(fd, bytes, sizeof bytes, 0);
	show("out", bytes, length);
	length = datagram(back, 7, 5000, "in");
	CHECK(write(fd, back, length));
	received("in", s);
	/* In pieces, as a vector, is one packet. */
	struct iovec vector[2] = { { back, 20 }, { back + 20, length - 20 } };
	CHECK(writev(fd, vector, 2));
	received("in pieces", s);
	/* For somebody else, and not of a protocol. */
	back[19] = 9;
	memset(back + 10, 0, 2);
	uint16_t own = sum(back, 20);
	memcpy(back + 10, &own, 2);
	CHECK(write(fd, back, length));
	received("for another", s);
	CHECK(write(fd, "\x15garbage", 8));
	CHECK(write(fd, "\x45", 1));

	/* An echo that is answered, and one that is to be. */
	uint8_t echo[12] = { 8, 0, 0, 0, 1, 2, 0, 1, 'e', 'c', 'h', 'o' };
	own = sum(echo, sizeof echo);
	memcpy(echo + 2, &own, 2);
	length = packet(back, 7, IPPROTO_ICMP, echo, sizeof echo);
	CHECK(write(fd, back, length));
	length = next(fd, bytes, sizeof bytes, 0);
	show("echo", bytes, length);
	int raw = socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK, IPPROTO_ICMP);
	struct sockaddr_in peer = { .sin_family = AF_INET };
	inet_aton("10.7.0.2", &peer.sin_addr);
	CHECK(sendto(raw, echo, sizeof echo, 0, (void *)&peer, sizeof peer));
	length = next(fd, bytes, sizeof bytes, 0);
	show("question", bytes, length);
	bytes[20] = 0;
	memset(bytes + 22, 0, 2);
	own = sum(bytes + 20, length - 20);
	memcpy(bytes + 22, &own, 2);
	length = packet(back, 7, IPPROTO_ICMP, bytes + 20, length - 20);
	CHECK(write(fd, back, length));
	length = recv(raw, bytes, sizeof bytes, 0);
	show("answer", bytes, length);
	close(raw);
	counted("tun0");

	/* Readiness. */
	drain(fd);
	polled("empty", fd);
	int set = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN };
	epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
	out(s, "10.7.0.2", "ready");
	polled("full", fd);
	CHECK(epoll_wait(set, &event, 1, 1000));
	length = next(fd, bytes, sizeof bytes, 0);
	show("ready", bytes, length);
	close(set);
	/* A packet is cut to what there is room for, and is gone. */
	drain(fd);
	out(s, "10.7.0.2", "cut");
	CHECK(next(fd, bytes, 25, 0));
	CHECK(next(fd, bytes, sizeof bytes, 0));
	/* Who waits is woken. */
	fcntl(fd, F_SETFL, 0);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		usleep(50000);
		out(s, "10.7.0.2", "wake up");
		_exit(0);
	}
	length = next(fd, bytes, sizeof bytes, 0);
	show("woken", bytes, length);
	waitpid(child, NULL, 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	/* What nobody reads is bounded. */
	drain(fd);
	int sent = 0, read_back = 0;
	for (int i = 0; i < 700; i++)
		sent += out(s, "10.7.0.2", "flood") == 5;
	while (next(fd, bytes, sizeof bytes, 0) > 0)
		read_back++;
	printf("sent %d, bounded: %d\n", sent, read_back > 480 && read_back <= 500);
	/* A packet socket sees packets without a header. */
	int seen = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(0x800));
	struct sockaddr_ll place = { .sll_family = AF_PACKET, .sll_protocol = htons(0x800), .sll_ifindex = if_nametoindex("tun0") };
	CHECK(bind(seen, (void *)&place, sizeof place));
	length = datagram(back, 7, 5000, "seen");
	CHECK(write(fd, back, length));
	socklen_t size = sizeof place;
	length = recvfrom(seen, bytes, sizeof bytes, 0, (void *)&place, &size);
	show("seen", bytes, length);
	printf("type %d, address of %d bytes\n", place.sll_hatype, place.sll_halen);
	received("seen by", s);
	length = datagram(back, 7, 1, "made");
	CHECK(sendto(seen, back, length, 0, (void *)&place, sizeof place));
	length = next(fd, bytes, sizeof bytes, 0);
	show("made", bytes, length);
	/* Whatever is written. */
	uint32_t random = 1;
	for (int i = 0; i < 3000; i++) {
		for (int at = 0; at < 100; at++) {
			random = random * 1103515245 + 12345;
			bytes[at] = random >> 16;
		}
		if (i & 1)
			packet(bytes, 7, bytes[50], bytes + 50, bytes[51] & 31);
		bytes[0] = i & 2 ? bytes[0] : 0x40 | (bytes[0] & 0x2f);
		if (write(fd, bytes, 1 + bytes[60] % 100) < 0 && errno != EINVAL)
			perror("write");
	}
	drain(fd);
	while (recv(s, bytes, sizeof bytes, 0) >= 0)
		;
	length = datagram(back, 7, 5000, "alive");
	CHECK(write(fd, back, length));
	received("still", s);
	up("tun0", 0);
	CHECK(write(fd, back, length));
	polled("down", fd);
	up("tun0", 1);
	CHECK(write(fd, back, length));
	received("again", s);
	/* All of it goes with the file. */
	while (recv(seen, bytes, sizeof bytes, 0) >= 0)
		;
	close(fd);
	CHECK(recv(seen, bytes, sizeof bytes, 0));
	CHECK(recv(seen, bytes, sizeof bytes, 0));
	flags_of("tun0");
	CHECK(out(s, "10.7.0.2", "nowhere"));
	close(seen);
	close(s);
}

static void information_in_front(void)
{
	uint8_t bytes[2000], back[200] = { 0, 0, 8, 0 };
	int length, fd = opened(O_NONBLOCK);
	take(fd, "vpn%d", TUN);
	configure("vpn0", "10.7.0.1");
	int s = datagrams("10.7.0.1", 5000);
	length = 4 + datagram(back + 4, 7, 5000, "in");
	CHECK(write(fd, back, length));
	received("in", s);
	CHECK(write(fd, back, 3));
	CHECK(write(fd, back, 4));
	back[2] = 0x88;
	CHECK(write(fd, back, length));
	received("another protocol", s);
	out(s, "10.7.0.2", "out");
	do
		length = read(fd, bytes, sizeof bytes);
	while (length > 4 && bytes[2] == 0x86);
	printf("%02x%02x %02x%02x ", bytes[0], bytes[1], bytes[2], bytes[3]);
	show("out", bytes + 4, length - 4);
	drain(fd);
	out(s, "10.7.0.2", "out");
	length = read(fd, bytes, 10);
	printf("%d: %02x%02x %02x%02x\n", length, bytes[0], bytes[1], bytes[2], bytes[3]);
	out(s, "10.7.0.2", "out");
	CHECK(read(fd, bytes, 3));
	CHECK(read(fd, bytes, 3));
	close(fd);
	close(s);
}

static void frames_of_a_tap(void)
{
	uint8_t bytes[2000], frame[200] = { 0 }, mac[6];
	static const uint8_t peer[6] = { 2, 0, 0, 0, 0, 9 };
	int length, fd = opened(O_NONBLOCK);
	take(fd, "tap%d", TAP);
	flags_of("tap0");
	configure("tap0", "10.8.0.1");
	flags_of("tap0");
	struct ifreq request = { 0 };
	strcpy(request.ifr_name, "tap0");
	CHECK(ioctl(control, SIOCGIFHWADDR, &request));
	memcpy(mac, request.ifr_hwaddr.sa_data, 6);
	printf("hardware %d, address %s\n", request.ifr_hwaddr.sa_family, (mac[0] & 3) == 2 ? "of its own" : "strange");
	memset(&request.ifr_hwaddr, 0, sizeof request.ifr_hwaddr);
	CHECK(ioctl(fd, SIOCGIFHWADDR, &request));
	printf("the same: %d\n", !memcmp(mac, request.ifr_hwaddr.sa_data, 6));
	int s = datagrams("10.8.0.1", 5000);
	out(s, "10.8.0.2", "out");
	length = next(fd, bytes, sizeof bytes, 1);
	printf("%d bytes, %02x%02x: ", length, bytes[2], bytes[3]);
	uint8_t *arp = bytes + 4 + 14;
	printf("%d asks for %d.%d.%d.%d\n", arp[7], arp[24], arp[25], arp[26], arp[27]);
	/* "I have it." */
	uint8_t answer[4 + 14 + 28] = { 0, 0, 8, 6 };
	memcpy(answer + 4, mac, 6);
	memcpy(answer + 10, peer, 6);
	answer[16] = 8;
	answer[17] = 6;
	memcpy(answer + 18, "\0\1\10\0\6\4\0\2", 8);
	memcpy(answer + 26, peer, 6);
	memcpy(answer + 32, "\12\10\0\2", 4);
	memcpy(answer + 36, mac, 6);
	memcpy(answer + 42, "\12\10\0\1", 4);
	CHECK(write(fd, answer, sizeof answer));
	length = next(fd, bytes, sizeof bytes, 1);
	printf("to the peer: %d ", !memcmp(bytes + 4, peer, 6));
	show("out", bytes + 18, length - 18);
	frame[2] = 8;
	memcpy(frame + 4, mac, 6);
	memcpy(frame + 10, peer, 6);
	frame[16] = 8;
	length = 18 + datagram(frame + 18, 8, 5000, "in");
	CHECK(write(fd, frame, length));
	received("in", s);
	frame[9] ^= 1;
	CHECK(write(fd, frame, length));
	received("for another station", s);
	CHECK(write(fd, frame, 17));
	counted("tap0");
	close(fd);
	flags_of("tap0");
	close(s);
}

static void what_stays(void)
{
	int fd = opened(O_NONBLOCK);
	take(fd, "keep", TUN | NO_PI);
	CHECK(ioctl(fd, TUNSETOWNER, 1000));
	CHECK(ioctl(fd, TUNSETPERSIST, 1));
	struct ifreq request = { 0 };
	CHECK(ioctl(fd, TUNGETIFF, &request));
	printf("%s %04x\n", request.ifr_name, (unsigned short)request.ifr_flags);
	configure("keep", "10.9.0.1");
	flags_of("keep");
	close(fd);
	flags_at_last("keep", 0);
	as(1001, takes);
	as(1000, takes);
	flags_at_last("keep", 0);
	as(1000, takes_last);
	flags_of("keep");
}

static void address_of(const char *what, int request_number)
{
	struct ifreq request = { 0 };
	strcpy(request.ifr_name, "line");
	if (ioctl(control, request_number, &request))
		printf("%s: %s\n", what, name(errno));
	else
		printf("%s: %s\n", what, inet_ntoa(((struct sockaddr_in *)&request.ifr_addr)->sin_addr));
}

/* One machine at the other end: by ioctl(2), then by rtnetlink(7). */
static void a_line_with_a_peer(void)
{
	uint8_t bytes[2000];
	int length, fd = opened(O_NONBLOCK), link = socket(AF_NETLINK, SOCK_RAW, 0);
	take(fd, "line", TUN | NO_PI);
	struct ifreq request = { 0 };
	strcpy(request.ifr_name, "line");
	struct sockaddr_in in = { .sin_family = AF_INET };
	inet_aton("10.7.1.1", &in.sin_addr);
	memcpy(&request.ifr_addr, &in, sizeof in);
	CHECK(ioctl(control, SIOCSIFADDR, &request));
	address_of("mask", SIOCGIFNETMASK);
	address_of("peer", SIOCGIFDSTADDR);
	inet_aton("10.7.2.2", &in.sin_addr);
	memcpy(&request.ifr_addr, &in, sizeof in);
	CHECK(ioctl(control, SIOCSIFDSTADDR, &request));
	address_of("own", SIOCGIFADDR);
	address_of("peer", SIOCGIFDSTADDR);
	up("line", 1);
	int s = datagrams("0.0.0.0", 5000);
	CHECK(out(s, "10.7.2.2", "to the peer"));
	length = next(fd, bytes, sizeof bytes, 0);
	show("out", bytes, length);
	CHECK(out(s, "10.7.2.3", "to another"));
	CHECK(out(s, "10.7.1.2", "to another"));
	/* NEWADDR with IFA_LOCAL and IFA_ADDRESS. */
	struct { uint32_t length; uint16_t type, flags; uint32_t sequence, port; uint8_t family, bits, own, scope; int32_t index; uint16_t a[2]; uint8_t local[4]; uint16_t b[2]; uint8_t peer[4]; } more = {
		40, 20, 0x605, 1, 0, AF_INET, 32, 0, 0, if_nametoindex("line"), { 8, 2 }, { 10, 7, 3, 1 }, { 8, 1 }, { 10, 7, 4, 2 }
	};
	struct { uint32_t head[4]; int32_t error; } answer;
	CHECK(send(link, &more, sizeof more, 0));
	recv(link, &answer, sizeof answer, 0);
	printf("answer %d\n", answer.error);
	CHECK(out(s, "10.7.4.2", "to the second"));
	length = next(fd, bytes, sizeof bytes, 0);
	show("out", bytes, length);
	more.type = 21;
	more.flags = 5;
	CHECK(send(link, &more, sizeof more, 0));
	recv(link, &answer, sizeof answer, 0);
	printf("answer %d\n", answer.error);
	CHECK(out(s, "10.7.4.2", "to nobody"));
	close(fd);
	close(s);
	close(link);
}

/* RTM_DELLINK of an interface that a file has. */
static void what_is_taken_away(void)
{
	uint8_t bytes[2000];
	int fd = opened(O_NONBLOCK), link = socket(AF_NETLINK, SOCK_RAW, 0);
	take(fd, "gone", TUN | NO_PI);
	/* NEWLINK and SETLINK of nothing. */
	for (int type = 16; type < 20; type += 3) {
		struct { uint32_t length; uint16_t type, flags; uint32_t sequence, port, nothing[4]; } none = { 32, type, 5, 1, 0, { 0 } };
		struct { uint32_t head[4]; int32_t error; } error;
		CHECK(send(link, &none, sizeof none, 0));
		recv(link, &error, sizeof error, 0);
		printf("answer %d\n", error.error);
	}
	struct { uint32_t length; uint16_t type, flags; uint32_t sequence, port; uint8_t family[4]; int32_t index; uint32_t value, change; } request = {
		32, 17, 5, 1, 0, { 0 }, if_nametoindex("gone"), 0, 0
	};
	struct { uint32_t head[4]; int32_t error; } answer;
	CHECK(send(link, &request, sizeof request, 0));
	recv(link, bytes, sizeof bytes, 0);
	memcpy(&answer, bytes, sizeof answer);
	printf("answer %d\n", answer.error);
	flags_of("gone");
	CHECK(read(fd, bytes, sizeof bytes));
	CHECK(write(fd, bytes, 20));
	take(fd, "gone", TUN | NO_PI);
	close(fd);
	close(link);
}

static void without_ipv6(const char *value)
{
	FILE *file = fopen("/proc/sys/net/ipv6/conf/default/disable_ipv6", "w");
	if (file) {
		fputs(value, file);
		fclose(file);
	}
}

int main(void)
{
	control = socket(AF_INET, SOCK_DGRAM, 0);
	/* What Linux says by itself would come at any moment. */
	without_ipv6("1");
	before_an_interface();
	packets_of_a_tun();
	information_in_front();
	frames_of_a_tap();
	what_stays();
	a_line_with_a_peer();
	what_is_taken_away();
	/* The programs after this one in the same machine want their addresses. */
	without_ipv6("0");
	return 0;
}
