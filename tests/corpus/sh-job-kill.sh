# kill by signal names, numbers, lists; kill -0; kill -l.
kill -l 9; kill -l TERM
sleep 900 & a=$!; sleep 900 & b=$!; kill $a $b; wait $a; echo $?; wait $b; echo $?
kill -0 $a 2>/dev/null || echo gone
kill 2>/dev/null; echo $?
