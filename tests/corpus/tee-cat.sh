# tee to several files, appending, and joining parts made with head, tail and dd.
seq 1 100 | tee a b >c; cmp a b && cmp b c && echo three copies; echo more | tee -a a >/dev/null; tail -n 1 a
head -n 30 b >p1; tail -n +31 b | head -n 30 >p2; tail -n +61 b >p3; cat p1 p2 p3 | cmp - b && echo joined; dd if=b of=q1 bs=100 count=1 2>/dev/null; dd if=b of=q2 bs=100 skip=1 2>/dev/null; cat q1 q2 | cmp - b && echo again
