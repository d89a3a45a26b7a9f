# nl styles, fold by words, column-less formatting.
printf 'a\n\nb\n' | nl; printf 'a\n\nb\n' | nl -b a; echo 'the quick brown fox jumps' | fold -s -w 10; printf 'x\n' | nl -w 3 -s:
