# time and sleep: output shape, statuses, fractions.
time true 2>err; echo $?; { time sleep 0.1; } 2>t; awk '/real/ { print "real" }' t; time sh -c 'exit 4' 2>/dev/null; echo $?; sleep 0; sleep 0.05 0.05 && echo slept; usleep 1000; echo $?
a=$(date +%s); sleep 1; b=$(date +%s); [ $((b - a)) -ge 1 ] && echo at least a second
rm -f t err
