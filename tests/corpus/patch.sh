# diff and patch.
seq 1 20 >old; sed '5s/.*/five/;12d;15a new' old >new; diff -U 3 -L old -L old old new >p; cp old work; patch work p; cmp work new && echo patched; patch -R work p; cmp work old && echo back
printf '1\n2\n' >old; echo bad >work; patch work p 2>/dev/null; [ $? -ne 0 ] && echo refused; rm -f *.rej *.orig
