/* Loop devices: /dev/loop-control, files as disks, what ioctl(2) says of them and its errors, offsets and limits, files that can only be read, that shrink and grow, devices that give their file back by themselves. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

/* linux/loop.h and linux/fs.h: not every C library brings the kernel's headers. */
#define LOOP_SET_FD 0x4c00
#define LOOP_CLR_FD 0x4c01
#define LOOP_SET_STATUS 0x4c02
#define LOOP_GET_STATUS 0x4c03
#define LOOP_SET_STATUS64 0x4c04
#define LOOP_GET_STATUS64 0x4c05
#define LOOP_CHANGE_FD 0x4c06
#define LOOP_SET_CAPACITY 0x4c07
#define LOOP_SET_DIRECT_IO 0x4c08
#define LOOP_SET_BLOCK_SIZE 0x4c09
#define LOOP_CONFIGURE 0x4c0a
#define LOOP_CTL_ADD 0x4c80
#define LOOP_CTL_REMOVE 0x4c81
#define LOOP_CTL_GET_FREE 0x4c82
#define BLKROGET 0x125e
#define BLKRRPART 0x125f
#define BLKGETSIZE 0x1260
#define BLKFLSBUF 0x1261
#define BLKSSZGET 0x1268
#define BLKGETSIZE64 0x80081272
#define READ_ONLY 1
#define AUTOCLEAR 4
#define PARTSCAN 8

struct info64 {
	uint64_t device, inode, rdevice, offset, limit;
	uint32_t number, encrypt_type, key_size, flags;
	uint8_t name[64], crypt_name[64], key[32];
	uint64_t init[2];
};
struct info {
	int number;
	unsigned long device, inode, rdevice;
	int offset, encrypt_type, key_size, flags;
	char name[64];
	unsigned char key[32];
	unsigned long init[2];
	char reserved[4];
};
struct config {
	uint32_t fd, block_size;
	struct info64 info;
	uint64_t reserved[8];
};

static const char *name(int number)
{
	static const struct { int number; const char *name; } names[] = {
		{ EPERM, "EPERM" }, { EINVAL, "EINVAL" }, { ENODEV, "ENODEV" }, { EBUSY, "EBUSY" }, { EEXIST, "EEXIST" }, { EIO, "EIO" }, { EACCES, "EACCES" },
		{ EBADF, "EBADF" }, { EFAULT, "EFAULT" }, { ENOTTY, "ENOTTY" }, { ENOENT, "ENOENT" }, { ENXIO, "ENXIO" }, { ENOSPC, "ENOSPC" }, { EOVERFLOW, "EOVERFLOW" },
		{ ENOSYS, "ENOSYS" },
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

static int control, number;
static char path[32];

static int opened(int flags)
{
	int fd = open(path, flags);
	if (fd < 0)
		perror(path);
	return fd;
}

/* A file of so many bytes, each 512 of which begin with their number. */
static int made(const char *file, long bytes)
{
	int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
	for (long at = 0; at < bytes; at += 512) {
		char sector[512] = { 0 };
		snprintf(sector, sizeof sector, "%s %ld", file, at / 512);
		if (write(fd, sector, bytes - at < 512 ? bytes - at : 512) < 0)
			perror("write");
	}
	return fd;
}

static void sizes(int fd)
{
	unsigned long sectors = 0;
	uint64_t bytes = 0;
	int block = 0, read_only = 0;
	int r = ioctl(fd, BLKGETSIZE, &sectors) | ioctl(fd, BLKGETSIZE64, &bytes) | ioctl(fd, BLKSSZGET, &block) | ioctl(fd, BLKROGET, &read_only);
	printf("%d: %lu sectors, %lu bytes, blocks of %d, read-only %d, ends at %ld\n", r, sectors, (unsigned long)bytes, block, read_only, (long)lseek(fd, 0, SEEK_END));
}

static void shown(int fd)
{
	struct info64 info;
	struct info old;
	memset(&info, 0xee, sizeof info);
	memset(&old, 0xee, sizeof old);
	int a = ioctl(fd, LOOP_GET_STATUS64, &info), why = errno, b = ioctl(fd, LOOP_GET_STATUS, &old);
	if (a) {
		printf("status: %s, old: %s\n", name(why), b ? name(errno) : "there");
		return;
	}
	printf("offset %lu limit %lu flags %u named '%s' crypt '%s' %u, its own number %d, rdevice %lu\n", (unsigned long)info.offset, (unsigned long)info.limit, info.flags,
		info.name, info.crypt_name, info.encrypt_type, info.number == (unsigned)number, (unsigned long)info.rdevice);
	if (!b)
		printf("old: offset %d flags %d '%s' %d\n", old.offset, old.flags, old.name, old.inode == info.inode && old.device == info.device && old.number == (int)info.number);
}

static void sector(int fd, long at)
{
	char bytes[513] = { 0 };
	long r = pread(fd, bytes, 512, at * 512);
	printf("sector %ld: %ld '%s' %s\n", at, r, r > 0 ? bytes : "", r < 0 ? name(errno) : "");
}

static void backing(void)
{
	char file[80], text[300];
	snprintf(file, sizeof file, "/sys/block/loop%d/loop/backing_file", number);
	FILE *f = fopen(file, "r");
	if (!f) {
		printf("backing file: %s\n", name(errno));
		return;
	}
	if (fgets(text, sizeof text, f)) {
		char *last = strrchr(text, '/');
		printf("backing file: %s", last ? last : text);
	}
	fclose(f);
}

static void controls(void)
{
	CHECK(ioctl(control, LOOP_CTL_ADD, number) < 0 ? errno == EEXIST : 2);
	CHECK(ioctl(control, LOOP_CTL_ADD, 77));
	CHECK(ioctl(control, LOOP_CTL_ADD, 77));
	struct stat st;
	CHECK(stat("/dev/loop77", &st));
	printf("%s %u:%u\n", S_ISBLK(st.st_mode) ? "block" : "other", major(st.st_rdev), minor(st.st_rdev));
	int fd = open("/dev/loop77", O_RDONLY);
	CHECK(ioctl(control, LOOP_CTL_REMOVE, 77));
	close(fd);
	CHECK(ioctl(control, LOOP_CTL_REMOVE, 77));
	CHECK(ioctl(control, LOOP_CTL_REMOVE, 77));
	CHECK(open("/dev/loop77", O_RDONLY));
	CHECK(ioctl(control, LOOP_CTL_REMOVE, -1));
	CHECK(ioctl(control, 0x4c83, 0));
	CHECK(ioctl(control, LOOP_SET_FD, 0));
}

static void without(void)
{
	int fd = opened(O_RDWR);
	uint64_t bytes;
	char byte = 0;
	shown(fd);
	CHECK(ioctl(fd, LOOP_CLR_FD, 0));
	CHECK(ioctl(fd, LOOP_SET_CAPACITY, 0));
	CHECK(ioctl(fd, LOOP_SET_BLOCK_SIZE, 1024));
	CHECK(ioctl(fd, LOOP_SET_DIRECT_IO, 0));
	CHECK(ioctl(fd, LOOP_CHANGE_FD, fd));
	struct info64 info = { 0 };
	CHECK(ioctl(fd, LOOP_SET_STATUS64, &info));
	CHECK(ioctl(fd, BLKGETSIZE64, &bytes));
	printf("%lu bytes\n", (unsigned long)bytes);
	CHECK(read(fd, &byte, 1));
	CHECK(write(fd, &byte, 1));
	CHECK(ioctl(fd, LOOP_SET_FD, 999));
	CHECK(ioctl(fd, LOOP_SET_FD, -1));
	int ends[2];
	if (pipe(ends))
		perror("pipe");
	CHECK(ioctl(fd, LOOP_SET_FD, ends[0]));
	CHECK(ioctl(fd, LOOP_SET_FD, open("/", O_RDONLY)));
	CHECK(ioctl(fd, LOOP_SET_FD, open("/dev/null", O_RDWR)));
	CHECK(ioctl(fd, LOOP_SET_FD, fd));
	int named = open(".", O_PATH);
	CHECK(ioctl(fd, LOOP_SET_FD, named));
	CHECK(ioctl(named, LOOP_SET_FD, fd));
	close(ends[0]);
	close(ends[1]);
	close(named);
	close(fd);
}

static void one_file(void)
{
	int file = made("one", 100 * 512 + 100), fd = opened(O_RDWR);
	CHECK(ioctl(fd, LOOP_SET_FD, file));
	CHECK(ioctl(fd, LOOP_SET_FD, file));
	CHECK(ioctl(control, LOOP_CTL_REMOVE, number));
	sizes(fd);
	shown(fd);
	backing();
	sector(fd, 0);
	sector(fd, 99);
	sector(fd, 100);
	/* The file's own position is nobody's business. */
	printf("position %ld\n", (long)lseek(file, 0, SEEK_CUR));
	CHECK(pwrite(fd, "written", 7, 5 * 512 + 3));
	CHECK(pwrite(fd, "behind", 6, 100 * 512));
	CHECK(fsync(fd));
	CHECK(ioctl(fd, BLKFLSBUF, 0));
	char bytes[16] = { 0 };
	CHECK(pread(file, bytes, 15, 5 * 512));
	printf("'%s'\n", bytes);
	CHECK(ioctl(fd, BLKRRPART, 0));
	CHECK(ioctl(fd, LOOP_CHANGE_FD, file));
	CHECK(ioctl(fd, LOOP_SET_BLOCK_SIZE, 1000));
	CHECK(ioctl(fd, LOOP_SET_BLOCK_SIZE, 8192));
	CHECK(ioctl(fd, LOOP_SET_BLOCK_SIZE, 1024));
	sizes(fd);
	CHECK(ioctl(fd, LOOP_SET_BLOCK_SIZE, 512));
	/* It grows, and shrinks. */
	CHECK(ftruncate(file, 200 * 512));
	sizes(fd);
	CHECK(ioctl(fd, LOOP_SET_CAPACITY, 0));
	sizes(fd);
	sector(fd, 150);
	CHECK(ftruncate(file, 50 * 512));
	CHECK(ioctl(fd, LOOP_SET_CAPACITY, 0));
	sizes(fd);
	sector(fd, 49);
	/* The file stays, without its name and its descriptor. */
	CHECK(unlink("one"));
	close(file);
	sector(fd, 7);
	close(fd);
	fd = opened(O_RDWR);
	sector(fd, 8);
	CHECK(ioctl(fd, LOOP_CLR_FD, 0));
	CHECK(ioctl(fd, LOOP_CLR_FD, 0));
	shown(fd);
	backing();
	sizes(fd);
	close(fd);
}

static void parts_of_files(void)
{
	int file = made("two", 64 * 512), fd = opened(O_RDWR), looking = opened(O_RDONLY);
	CHECK(ioctl(fd, LOOP_SET_FD, file));
	struct info64 info = { .offset = 10 * 512, .limit = 20 * 512 + 5, .name = "a name", .flags = READ_ONLY };
	CHECK(ioctl(fd, LOOP_SET_STATUS64, &info));
	shown(fd);
	sizes(fd);
	sector(fd, 0);
	sector(fd, 19);
	sector(fd, 20);
	CHECK(ioctl(looking, LOOP_GET_STATUS64, &info));
	info = (struct info64) { .offset = 1000 * 512 };
	CHECK(ioctl(fd, LOOP_SET_STATUS64, &info));
	sizes(fd);
	info = (struct info64) { .offset = 1ULL << 63 };
	CHECK(ioctl(fd, LOOP_SET_STATUS64, &info));
	info = (struct info64) { .encrypt_type = 1 };
	CHECK(ioctl(fd, LOOP_SET_STATUS64, &info));
	info = (struct info64) { .key_size = 33 };
	CHECK(ioctl(fd, LOOP_SET_STATUS64, &info));
	CHECK(ioctl(fd, LOOP_SET_STATUS64, (void *)8));
	struct info old = { .offset = 3 * 512, .name = "old" };
	CHECK(ioctl(fd, LOOP_SET_STATUS, &old));
	shown(fd);
	sector(fd, 0);
	info = (struct info64) { .offset = 1ULL << 40 };
	CHECK(ioctl(fd, LOOP_SET_STATUS64, &info));
	CHECK(ioctl(fd, LOOP_GET_STATUS, &old));
	CHECK(ioctl(fd, LOOP_CLR_FD, 0));
	/* Somebody else has it open: it is for when he is done. */
	shown(fd);
	close(looking);
	close(fd);
	fd = opened(O_RDWR);
	shown(fd);
	close(fd);
	close(file);
	unlink("two");
}

static void read_only(void)
{
	int file = made("three", 32 * 512), other = made("four", 32 * 512), shorter = made("five", 16 * 512);
	int reading = open("three", O_RDONLY), fd = opened(O_RDWR);
	CHECK(ioctl(fd, LOOP_SET_FD, reading));
	sizes(fd);
	shown(fd);
	CHECK(pwrite(fd, "x", 1, 0) < 0);
	sector(fd, 3);
	CHECK(ioctl(fd, LOOP_CHANGE_FD, shorter));
	CHECK(ioctl(fd, LOOP_CHANGE_FD, 999));
	CHECK(ioctl(fd, LOOP_CHANGE_FD, other));
	sector(fd, 3);
	backing();
	CHECK(ioctl(fd, LOOP_CLR_FD, 0));
	close(fd);
	/* Who can only read the device can have it do no more. */
	fd = opened(O_RDONLY);
	CHECK(ioctl(fd, LOOP_SET_FD, file));
	sizes(fd);
	CHECK(ioctl(fd, LOOP_CLR_FD, 0));
	close(fd);
	close(file);
	close(other);
	close(shorter);
	close(reading);
	unlink("three");
	unlink("four");
	unlink("five");
}

static void configured(void)
{
	int file = made("six", 80 * 512), fd = opened(O_RDWR);
	struct config config = { .fd = 999 };
	CHECK(ioctl(fd, LOOP_CONFIGURE, &config));
	config.fd = file;
	config.block_size = 700;
	CHECK(ioctl(fd, LOOP_CONFIGURE, &config));
	config.block_size = 4096;
	config.info.flags = 64;
	CHECK(ioctl(fd, LOOP_CONFIGURE, &config));
	config.info.flags = AUTOCLEAR;
	config.info.offset = 16 * 512;
	strcpy((char *)config.info.name, "six");
	CHECK(ioctl(fd, LOOP_CONFIGURE, &config));
	CHECK(ioctl(fd, LOOP_CONFIGURE, &config));
	close(file);
	sizes(fd);
	shown(fd);
	sector(fd, 8);
	CHECK(pwrite(fd, "six and more", 12, 8 * 512));
	sector(fd, 8);
	int again = opened(O_RDONLY);
	close(fd);
	shown(again);
	close(again);
	/* Nobody had it any more. */
	fd = opened(O_RDWR);
	shown(fd);
	backing();
	close(fd);
	unlink("six");
	/* Its user dies. */
	int child = fork();
	if (!child) {
		file = made("seven", 8 * 512);
		fd = opened(O_RDWR);
		config = (struct config) { .fd = file, .info.flags = AUTOCLEAR };
		if (ioctl(fd, LOOP_CONFIGURE, &config))
			perror("configure");
		kill(getpid(), 9);
	}
	waitpid(child, NULL, 0);
	fd = opened(O_RDWR);
	shown(fd);
	close(fd);
	unlink("seven");
}

static void others(void)
{
	int child = fork();
	if (!child) {
		if (setgroups(0, NULL) || setgid(1000) || setuid(1000))
			perror("setuid");
		CHECK(open(path, O_RDONLY));
		CHECK(open(path, O_RDWR));
		CHECK(open("/dev/loop-control", O_RDWR));
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	char dir[] = "/tmp/loopsXXXXXX";
	if (!mkdtemp(dir) || chdir(dir))
		perror(dir);
	struct stat st;
	CHECK(stat("/dev/loop-control", &st));
	printf("%s %u:%u\n", S_ISCHR(st.st_mode) ? "character" : "other", major(st.st_rdev), minor(st.st_rdev));
	control = open("/dev/loop-control", O_RDWR);
	number = ioctl(control, LOOP_CTL_GET_FREE);
	printf("free: %d\n", number >= 0);
	snprintf(path, sizeof path, "/dev/loop%d", number);
	controls();
	without();
	one_file();
	parts_of_files();
	read_only();
	configured();
	others();
	printf("free again: %d\n", ioctl(control, LOOP_CTL_GET_FREE) == number);
	return chdir("/") || rmdir(dir);
}
