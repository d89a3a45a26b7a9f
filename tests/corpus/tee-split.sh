# tee, split, cat of the parts.
seq 1 100 | tee a b >c; cmp a b && cmp b c && echo three copies; echo more | tee -a a >/dev/null; tail -n 1 a
split -l 30 b part; ls part*; cat part* | cmp - b && echo joined; split -b 100 b byte; wc -c byte*
