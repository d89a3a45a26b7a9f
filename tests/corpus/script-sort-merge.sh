# Merge sort over files: parts by awk, sort each, merge.
seq 1 999 | awk '{ print ($1 * 617) % 1009 }' >n; awk '{ print >("part." int(NR / 200)) }' n; for p in part.?; do sort -n $p >$p.s; done; sort -n part.*.s >m; sort -n n | cmp - m && echo merged; head -n 2 m; ls part.*; rm part.*
