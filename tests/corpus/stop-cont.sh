# SIGSTOP and SIGCONT, seen in /proc.
sh -c 'while :; do :; done' & p=$!
becomes() { until [ "$(awk '{ print $3 }' /proc/$p/stat)" = $1 ]; do usleep 10000; done; echo $1; }
kill -STOP $p; becomes T; kill -CONT $p; becomes R; kill -STOP $p; kill -KILL $p; wait $p; echo $?
