# timeout: in time, too late, other signal, status.
timeout 500 echo in time; timeout 0.2 sleep 1000; echo $?; timeout -s KILL 0.2 sleep 1000; echo $?; timeout 500 sh -c 'exit 3'; echo $?; timeout 500 nosuch 2>/dev/null; echo $?
# On a slow machine the signal may come before the trap is set: then with more time.
for t in 0.2 1 5 20; do
    said=$(timeout -s USR1 $t sh -c 'trap "echo caught; exit 7" USR1; while :; do sleep 0.05; done'); s=$?
    [ $s = 7 ] && break
done; echo $said $s
