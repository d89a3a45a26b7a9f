# Large files: written, read in other pieces, changed in the middle, copied, cut; more data than memory.
# cairn-test: limit=900 mem=96M disk=512M
yes 'a line of a large file, again and again' | head -c 110000000 >big; stat -c '%s' big; sha256sum <big
dd if=big bs=1000003 skip=50 count=20 2>/dev/null | sha256sum
dd if=big bs=7 skip=12345678 count=3 2>/dev/null; echo
printf changed | dd of=big bs=1 seek=83456789 conv=notrunc 2>/dev/null; dd if=big bs=1 skip=83456780 count=30 2>/dev/null; echo
cp big copy && cmp big copy && echo same; sync
truncate -s 99999 big && tail -c 20 big && stat -c '%s %b' big; rm copy
head -c 3000000 /dev/zero | tr '\0' x >>big; stat -c %s big; sha256sum <big
