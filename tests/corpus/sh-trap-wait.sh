# A signal interrupts wait, the trap runs, the child lives on.
trap 'echo got it' USR1
sleep 5 &
child=$!
(sleep 0.2; kill -USR1 $$) &
wait $child; [ $? -gt 128 ] && echo interrupted
kill -0 $child && echo still alive
kill $child; wait $child; echo $?
