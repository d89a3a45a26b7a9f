# Background jobs, wait for one and all, $!.
(sleep 0.1; exit 7) & a=$!
(exit 3) & b=$!
wait $a; echo $?
wait $b; echo $?
for i in 1 2 3; do (echo $i >bg$i) & done; wait
cat bg1 bg2 bg3
