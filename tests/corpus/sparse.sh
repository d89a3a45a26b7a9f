# Files with holes: size, contents.
dd if=/dev/zero of=s bs=1 count=0 seek=50000000 2>/dev/null; stat -c %s s; printf end | dd of=s bs=1 seek=50000000 conv=notrunc 2>/dev/null; stat -c %s s; tail -c 5 s | od -c; dd if=s bs=1000 skip=20000 count=2 2>/dev/null | od -An -tx1 | head -n 2; truncate -s 10 s; stat -c %s s; truncate -s 20 s; od -c s; rm s
