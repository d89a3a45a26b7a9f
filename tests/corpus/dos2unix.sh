# dos2unix, unix2dos, cat -A, cat -n, cat -v.
printf 'a\r\nb\r\n' >f; dos2unix f; od -c f; unix2dos f; cat -A f 2>/dev/null || cat -v f; printf 'x\ty\001\n' | cat -v; printf 'a\n\nb\n' | cat -n; printf 'a\n\nb\n' | cat -b 2>/dev/null; cat nowhere 2>/dev/null; echo $?; echo s | cat - f | wc -l
