# cut and awk on bytes above 127, UTF-8 and zero bytes.
printf 'a\0b\0c' | tr '\0' '\n'; echo; printf '\377\376' | od -An -tx1; printf 'x\0y' | wc -c; printf 'grün\n' | wc -c; printf 'a\0b\n' | cat -v; printf '\200\n' | grep -c .; printf 'z\0' | cmp - /dev/zero 2>&1 | head -n 1 | sed 's/:.*//'
