/* /sys/class/net: a folder for each interface, what its files say of lo, a TUN and a TAP, who may open and write them, and what is left of an interface that
   went. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TUNSETIFF 0x400454ca
#define TUNSETPERSIST 0x400454cb
#define TUNSETOWNER 0x400454cc
#define TUNSETGROUP 0x400454ce
#define TUN 1
#define TAP 2
#define NO_PI 0x1000

static const char *name(int number)
{
	static const struct { int number; const char *name; } names[] = {
		{ EPERM, "EPERM" }, { EINVAL, "EINVAL" }, { ENODEV, "ENODEV" }, { EACCES, "EACCES" }, { EOPNOTSUPP, "EOPNOTSUPP" }, { EIO, "EIO" },
		{ ENOENT, "ENOENT" }, { ERANGE, "ERANGE" }, { ENOTDIR, "ENOTDIR" }, { EBUSY, "EBUSY" }, { ELOOP, "ELOOP" }, { EEXIST, "EEXIST" },
	};
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].number == number)
			return names[i].name;
	return strerror(number);
}

/* What a file says, with the ends of its lines as \n. */
static void show(const char *path)
{
	char text[512];
	int fd = open(path, O_RDONLY);
	ssize_t count = fd < 0 ? -1 : read(fd, text, sizeof text);
	if (count < 0)
		printf("%s", name(errno));
	for (ssize_t i = 0; i < count; i++)
		printf(text[i] == '\n' ? "\\n" : "%c", text[i]);
	printf("\n");
	close(fd);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* Names that are not the same from one machine to another, or not here. */
static int passed_over(const struct dirent *entry)
{
	static const char *const names[] = { ".", "..", "power", "queues" };
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(entry->d_name, names[i]))
			return 0;
	return 1;
}

/* Its hardware address is the machine's choice; what went through lo depends on what ran before. */
static int is_chance(const char *file, const char *folder)
{
	return (!strcmp(file, "address") && strstr(folder, "tap") != NULL) || strstr(folder, "/lo/statistics") != NULL;
}

static void folder(const char *path)
{
	struct dirent **all;
	int count = scandir(path, &all, passed_over, by_name);
	printf("%s: %d\n", path, count);
	for (int i = 0; i < count; i++) {
		char at[400], target[200] = "";
		snprintf(at, sizeof at, "%s/%s", path, all[i]->d_name);
		struct stat st;
		if (lstat(at, &st) < 0)
			printf("%s: %s\n", at, name(errno));
		/* (What cannot be written here is not shown as if it could.) */
		printf("  %s %o %ld %d:%d ", all[i]->d_name, S_ISREG(st.st_mode) ? st.st_mode & ~0222 : st.st_mode, (long)st.st_size, st.st_uid, st.st_gid);
		if (S_ISLNK(st.st_mode)) {
			ssize_t length = readlink(at, target, sizeof target - 1);
			printf("-> %.*s\n", (int)length, target);
		} else if (S_ISREG(st.st_mode) && !strcmp(all[i]->d_name, "ifindex")) {
			FILE *file = fopen(at, "r");
			unsigned index = 0;
			const char *last = strrchr(path, '/');
			printf("%s\n", file && fscanf(file, "%u", &index) == 1 && index == if_nametoindex(last + 1) ? "its number" : "another");
			fclose(file);
		} else if (S_ISREG(st.st_mode) && (!strcmp(all[i]->d_name, "iflink") || is_chance(all[i]->d_name, path))) {
			printf("%ld\n", (long)(access(at, R_OK)));
		} else if (S_ISREG(st.st_mode) && strcmp(all[i]->d_name, "uevent")) {
			show(at);
		} else {
			printf("\n");
		}
		free(all[i]);
	}
	free(all);
}

/* The number of an interface depends on how many there were before it. */
static void tells_name_and_number(const char *interface)
{
	char path[100], text[200] = "", wanted[200];
	snprintf(path, sizeof path, "/sys/class/net/%s/uevent", interface);
	snprintf(wanted, sizeof wanted, "INTERFACE=%s\nIFINDEX=%u\n", interface, if_nametoindex(interface));
	int fd = open(path, O_RDONLY);
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	printf("%s: %s\n", path, length < 0 ? name(errno) : strcmp(text, wanted) ? text : "its name and number");
	close(fd);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	if (fd < 0) {
		printf("%s: open: %s\n", path, name(errno));
		return;
	}
	ssize_t count = write(fd, text, strlen(text));
	printf("%s: %s: ", path, text);
	if (count < 0)
		printf("%s\n", name(errno));
	else
		printf("%zd\n", count);
	close(fd);
}

static int make(const char *called, int flags)
{
	int fd = open("/dev/net/tun", O_RDWR);
	struct ifreq request;
	memset(&request, 0, sizeof request);
	strcpy(request.ifr_name, called);
	request.ifr_flags = flags;
	if (ioctl(fd, TUNSETIFF, &request) < 0)
		printf("TUNSETIFF: %s\n", name(errno));
	return fd;
}

static void up(const char *called, int on)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq request;
	memset(&request, 0, sizeof request);
	strcpy(request.ifr_name, called);
	ioctl(fd, SIOCGIFFLAGS, &request);
	request.ifr_flags = on ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		printf("SIOCSIFFLAGS: %s\n", name(errno));
	close(fd);
}

static void writes(void)
{
	static const struct { const char *file, *text; } all[] = {
		{ "mtu", "1400\n" }, { "mtu", "0x500" }, { "mtu", "01000" }, { "mtu", " 1300" }, { "mtu", "1300 " }, { "mtu", "1300x" }, { "mtu", "" },
		{ "mtu", "-1" }, { "mtu", "67" }, { "mtu", "68" }, { "mtu", "65535" }, { "mtu", "65536" }, { "mtu", "99999999999999999999" },
		{ "mtu", "99999999999999999999x" }, { "mtu", "1500\n\n" }, { "mtu", "1500\n" },
		{ "flags", "0x1091\n" }, { "flags", "x" }, { "flags", "0x1090" },
		{ "address", "x" }, { "operstate", "up" }, { "speed", "x" }, { "statistics/rx_bytes", "0" },
	};
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		char at[100];
		snprintf(at, sizeof at, "/sys/class/net/tun7/%s", all[i].file);
		put(at, all[i].text);
		show(at);
	}
}

static void as(uid_t user, gid_t group, void (*what)(void))
{
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		if (setgroups(0, NULL) < 0 || setgid(group) < 0 || setuid(user) < 0)
			_exit(1);
		what();
		fflush(stdout);
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	printf("ended: %x\n", status);
}

static void stranger(void)
{
	show("/sys/class/net/tun7/tun_flags");
	show("/sys/class/net/tun7/mtu");
	tells_name_and_number("tun7");
	put("/sys/class/net/tun7/mtu", "1400");
	put("/sys/class/net/tun7/flags", "0x1091");
	put("/sys/class/net/tun7/tx_queue_len", "700");
	put("/sys/class/net/tun7/uevent", "x");
	int fd = open("/sys/class/net/tun7/new", O_CREAT | O_WRONLY, 0644);
	printf("new: %s\n", fd < 0 ? name(errno) : "made");
}

/* An open file for writing, in the hands of another. */
static int kept;
static void holder(void)
{
	ssize_t count = pwrite(kept, "1400", 4, 0);
	printf("kept: %s\n", count < 0 ? name(errno) : "written");
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	mkdir("/sys", 0755);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	up("lo", 1);
	folder("/sys/class/net/lo");
	folder("/sys/class/net/lo/statistics");
	show("/sys/class/net/lo/uevent");
	int tun = make("tun7", TUN | NO_PI), tap = make("tap7", TAP);
	ioctl(tun, TUNSETOWNER, 1000);
	ioctl(tap, TUNSETGROUP, 5);
	ioctl(tap, TUNSETPERSIST, 1);
	char target[200];
	static const char *const links[] = { "lo", "tun7", "tap7" };
	for (int i = 0; i < 3; i++) {
		char at[100];
		snprintf(at, sizeof at, "/sys/class/net/%s", links[i]);
		ssize_t length = readlink(at, target, sizeof target);
		printf("%s -> %.*s\n", at, (int)length, target);
	}
	folder("/sys/class/net/tun7");
	folder("/sys/devices/virtual/net/tap7");
	up("tun7", 1);
	up("tap7", 1);
	printf("up\n");
	static const char *const states[] = {
		"carrier", "flags", "operstate", "dormant", "speed", "duplex", "carrier_changes", "carrier_up_count", "carrier_down_count",
	};
	for (unsigned i = 0; i < sizeof states / sizeof *states; i++)
		for (int of = 1; of < 3; of++) {
			char at[100];
			snprintf(at, sizeof at, "/sys/class/net/%s/%s", links[of], states[i]);
			printf("%s: ", at);
			show(at);
		}
	char real[4096];
	printf("%s\n", realpath("/sys/class/net/tun7/subsystem/tap7/statistics/..", real) ? real : name(errno));
	writes();
	as(1000, 1000, stranger);
	kept = open("/sys/class/net/tun7/mtu", O_RDWR);
	as(1000, 1000, holder);
	int mtu = open("/sys/class/net/tun7/mtu", O_RDONLY), dir = open("/sys/class/net/tun7", O_RDONLY | O_DIRECTORY);
	int counts = openat(dir, "statistics/rx_bytes", O_RDONLY);
	close(tun);
	char byte[64];
	printf("gone: %s\n", read(mtu, byte, sizeof byte) < 0 ? name(errno) : "read");
	printf("gone: %s\n", read(counts, byte, sizeof byte) < 0 ? name(errno) : "read");
	printf("gone: %s\n", pwrite(kept, "1400", 4, 0) < 0 ? name(errno) : "written");
	printf("gone: %s\n", openat(dir, "mtu", O_RDONLY) < 0 ? name(errno) : "opened");
	printf("gone: %s\n", access("/sys/class/net/tun7", F_OK) < 0 ? name(errno) : "there");
	ioctl(tap, TUNSETPERSIST, 0);
	close(tap);
	printf("gone: %s\n", access("/sys/class/net/tap7", F_OK) < 0 ? name(errno) : "there");
	printf("end\n");
	return 0;
}
