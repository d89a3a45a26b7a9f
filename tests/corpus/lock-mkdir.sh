# A lock by mkdir: only one of twenty gets it at a time, a counter comes out right.
echo 0 >n
for w in 1 2 3 4 5 6 7 8 9 10; do (i=0; while [ $i -lt 3 ]; do until mkdir lock 2>/dev/null; do usleep 2000; done; echo $(($(cat n) + 1)) >n.new; mv n.new n; rmdir lock; i=$((i + 1)); done) & done; wait; cat n; ls
