/* What `ext4-exec-dynamic` of bench.c starts: as small as a dynamically linked program can be. */
int main(void) { return 0; }
