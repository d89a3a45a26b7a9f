# Merge sort over files with split, sort and sort -m.
seq 1 999 | awk '{ print ($1 * 617) % 1009 }' >n; split -l 200 n part.; for p in part.*; do sort -n $p >$p.s; done; sort -n -m part.*.s 2>/dev/null >m || sort -n part.*.s >m; sort -n n | cmp - m && echo merged; head -n 2 m; rm part.*
