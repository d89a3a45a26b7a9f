# A zombie is seen until it is collected; orphans go to process 1, which collects them.
cat >child <<'END'
# Not before the parent is a program that never waits.
until grep -q sleep /proc/$PPID/comm; do usleep 10000; done; exit 3
END
sh -c 'sh child & echo $! >pid; exec sleep 1000' & p=$!
until [ -s pid ]; do usleep 10000; done; c=$(cat pid)
until [ "$(awk '{ print $3 }' /proc/$c/stat)" = Z ]; do usleep 10000; done; ps -o pid,stat | awk -v c=$c '$1 == c { print substr($2, 1, 1) }'
kill $p; wait $p; echo $?; while [ -e /proc/$c ]; do usleep 10000; done; echo collected; rm child pid
sh -c 'sh -c "exit 3" & wait $!; echo $?'
cat >orphan <<'END'
until [ "$(awk '{ print $4 }' /proc/$$/stat)" = 1 ]; do usleep 10000; done; echo adopted >ppid.new; mv ppid.new ppid
END
sh -c 'sh orphan & exit 0'; until [ -e ppid ]; do usleep 10000; done; cat ppid; rm ppid orphan
