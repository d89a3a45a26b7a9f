# bzip2, bunzip2, xz and lzma decompression.
seq 1 5000 >f; bzip2 -k f; bunzip2 -c f.bz2 | cmp - f && echo bzip2; bzcat f.bz2 | tail -n 1; wc -c <f.bz2; rm f.bz2
printf '/Td6WFoAAATm1rRGAgAhARYAAAB0L+WjAQAFaGVsbG8KAAAAAFuMnXiqqsMnAAEeBsEu4Yg=' | base64 -d >x.xz 2>/dev/null; xzcat x.xz 2>/dev/null; [ $? -le 1 ] && echo xz ran
