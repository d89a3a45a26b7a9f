# A signal interrupts wait, the trap runs, the child lives on. cairn-test: cores=4
trap 'got=it' USR1
sleep 1000 &
child=$!
# Again and again: whenever the shell gets as far as waiting, one comes.
(while :; do kill -USR1 $$; usleep 100000; done) &
killer=$!
wait $child; [ $? -gt 128 ] && echo interrupted
trap '' USR1; kill -9 $killer; wait $killer; echo got $got
kill -0 $child && echo still alive
kill $child; wait $child; echo $?
