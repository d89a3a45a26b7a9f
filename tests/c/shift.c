/* fallocate's COLLAPSE_RANGE and INSERT_RANGE: what they refuse, that a file is then what it would be with the bytes moved, also mapped and not yet written. (In memory both are EOPNOTSUPP.)
 * cairn-test: disk=64M */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
enum { MOST = 6000000 };
static unsigned char model[MOST], read_back[MOST];
static long length;
static unsigned long seed = 7;
static unsigned below(unsigned end) { seed = seed * 6364136223846793005ul + 1442695040888963407ul; return (seed >> 33) % end; }
static int shift(int f, int mode, long at, long count) {
	if (fallocate(f, mode, at, count) != 0) return -errno;
	if (mode == 8) { memmove(model + at, model + at + count, length - at - count); length -= count; }
	if (mode == 32) { memmove(model + at + count, model + at, length - at); memset(model + at, 0, count); length += count; }
	return 0;
}
static void compare(int f, int line) {
	struct stat about; fstat(f, &about);
	if (about.st_size != length || pread(f, read_back, MOST, 0) != length || memcmp(read_back, model, length) != 0) { printf("%d: %ld for %ld bytes, or others\n", line, (long)about.st_size, length); exit(1); }
}
int main(void) {
	const long B = 4096;
	int f = open("f", O_RDWR | O_CREAT, 0644), r = open("f", O_RDONLY), d = open(".", O_RDONLY), p[2]; pipe(p);
	length = 40 * B + 100; for (long i = 0; i < length; i++) model[i] = below(256);
	write(f, model, length);
	long tries[][3] = {{8, 0, 100}, {8, 100, B}, {8, 0, 41 * B}, {8, 40 * B, B}, {8, 39 * B, B}, {8, 50 * B, B}, {32, 1, B}, {32, 0, B + 1}, {32, 41 * B, B}, {32, 39 * B, B}, {32, 0, 1l << 50}, {32, 40 * B, 1l << 62}, {9, 0, B}, {33, 0, B}, {40, 0, B}, {24, 0, B}, {10, 0, B}, {8, 0, 0}, {64, 0, B}, {2, 0, B}};
	for (int i = 0; i < sizeof tries / sizeof *tries; i++) {
		long *t = tries[i]; int got = shift(f, t[0], t[1], t[2]);
		printf("%ld %ld+%ld %ld: %d\n", t[0], t[1] / B, t[1] % B, t[2] / B, got); compare(f, i);
	}
	printf("%d %d %d\n", shift(r, 8, 0, B), shift(d, 8, 0, B), shift(p[1], 32, 0, B));
	int done[4] = {0};
	for (int round = 0; round < 200; round++) {
		long at = below(length), count = 1 + below(60000);
		int what = below(4);
		if (what == 0) { for (long i = 0; i < count; i++) model[at + i] = below(256); pwrite(f, model + at, count, at); if (at + count > length) length = at + count; }
		if (what == 1 || what == 2) {
			at = at / B * B; count = count / B * B + B;
			int got = what == 1 ? (length < 3000000 ? shift(f, 32, at, count) : 0) : shift(f, 8, at, count);
			if (got != 0 && got != -EINVAL && got != -EOPNOTSUPP) printf("%d: %d\n", round, got);
			done[what] += got == 0;
		}
		if (what == 3) {
			unsigned char *m = mmap(0, length, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
			if (memcmp(m, model, length) != 0) { printf("%d: mapped it is another\n", round); return 1; }
			m[at] = model[at] = round;
			// What is written through a mapping that is still there moves as well.
			long from = below(length) / B * B;
			if (from + B < length) { shift(f, 8, from, B); if (at < length && m[at] != model[at]) { printf("%d: the mapping shows something else\n", round); return 1; } }
			munmap(m, length);
		}
		if (round % 37 == 0) fsync(f);
		compare(f, 1000 + round);
	}
	printf("%ld bytes; %d holes came, %d went\n", length, done[1], done[2]);
	return 0;
}
