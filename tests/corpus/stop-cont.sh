# SIGSTOP and SIGCONT, seen in /proc.
sh -c 'while :; do :; done' & p=$!
kill -STOP $p; sleep 0.1; awk '{ print $3 }' /proc/$p/stat; kill -CONT $p; sleep 0.1; awk '{ print $3 }' /proc/$p/stat; kill -STOP $p; kill -KILL $p; wait $p; echo $?
