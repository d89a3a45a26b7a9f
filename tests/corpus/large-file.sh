# 8 MiB of data: copy, compare, checksum.
seq 1 200000 >s; cat s s s s s s >f; wc -c <f; cp f g; cmp f g && echo same; md5sum <f; dd if=f of=h bs=64k 2>/dev/null; cmp f h && echo dd; tail -c 7 h; rm f g h s
