# vim without a screen, and less.
printf 'int a;\nint b;\n' >f.c
vi -es -c '%s/int/long/' -c 'normal Gofloat c;' -c wq f.c
cat f.c
vi -es -c 'g/long/d' -c 'r f.c' -c 'wq! g.c' f.c
cat f.c g.c
seq 1 5 | less | cat
less -E f.c </dev/null
printf '1\n3\n2\n' | ex -s -c '%!sort' -c '%p' -c 'q!' /dev/stdin
