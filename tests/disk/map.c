/* Maps the files that it is given, shared and of its own: a sum of their bytes, what lies behind the end, what differs, and the errors of mapping them to be written. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char **argv) {
	for (int i = 1; i < argc; i++) {
		struct stat about; int f = open(argv[i], O_RDONLY); fstat(f, &about);
		size_t whole = (about.st_size + 4095) / 4096 * 4096; unsigned sum = 0, behind = 0;
		unsigned char *shared = mmap(0, whole, PROT_READ, MAP_SHARED, f, 0), *own = mmap(0, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE, f, 0), first;
		for (size_t at = 0; at < whole; at++) { if (at < (size_t)about.st_size) sum = sum * 31 + shared[at]; else behind |= shared[at]; }
		own[0] ^= 1; pread(f, &first, 1, 0);
		printf("%s %u %u %d %d %d", argv[i], sum, behind, memcmp(own + 1, shared + 1, whole - 1), own[0] == shared[0], first == shared[0]);
		errno = 0; printf(" %d", mmap(0, whole, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0) == MAP_FAILED ? errno : 0);
		errno = 0; printf(" %d\n", mprotect(shared, whole, PROT_READ | PROT_WRITE) ? errno : 0);
	}
}
