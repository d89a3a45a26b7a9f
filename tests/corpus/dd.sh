# dd: blocks, skip, seek, conversion, notrunc.
seq 1 100 >f; dd if=f of=g bs=10 count=3 2>/dev/null; cat g; echo; dd if=f bs=1 skip=5 count=4 2>/dev/null; echo; dd if=/dev/zero of=z bs=1k count=8 2>/dev/null; wc -c <z
printf XY | dd of=g bs=1 seek=2 conv=notrunc 2>/dev/null; cat g; echo; dd if=f of=h bs=7 2>/dev/null; cmp f h && echo same; dd if=/dev/zero of=s bs=1 count=0 seek=1000000 2>/dev/null; wc -c <s; dd if=f bs=20 count=1 conv=sync 2>/dev/null | wc -c
dd if=f of=/dev/null 2>&1 | head -n 2
