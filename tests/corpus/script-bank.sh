# Transfers between accounts in files by many processes under a lock; the sum stays.
for a in 0 1 2 3; do echo 100 >acc$a; done
move() { until ln -s $$ l 2>/dev/null; do usleep 1000; done; echo $(($(cat acc$1) - $3)) >acc$1; echo $(($(cat acc$2) + $3)) >acc$2; rm l; }
for w in 1 2 3 4; do (for i in 0 1 2 3 4; do move $((i % 4)) $(((i + w) % 4)) $w; done) & done; wait; cat acc* | awk '{ s += $1 } END { print s }'; cat acc0 acc1 acc2 acc3 | paste -s -d' '
