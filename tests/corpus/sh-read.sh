# read: fields, IFS, raw, prompt-less, timeout not used, end of file.
printf 'a b c d\n' | { read x y; echo "$x|$y"; }
printf 'a:b:c\n' | { IFS=: read x y z; echo $z$y$x; }
printf 'back\\slash\n' | { read x; echo "$x"; }
printf 'back\\slash\n' | { read -r x; echo "$x"; }
printf 'no newline' | { read x || echo end; echo $x; }
printf 'ab' | { read -n 1 x; echo $x; }
