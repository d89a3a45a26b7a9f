# timeout: in time, too late, other signal, status.
timeout 5 echo in time; timeout 0.2 sleep 5; echo $?; timeout -s KILL 0.2 sleep 5; echo $?; timeout 5 sh -c 'exit 3'; echo $?; timeout 5 nosuch 2>/dev/null; echo $?; timeout -s USR1 0.2 sh -c 'trap "echo caught; exit 7" USR1; while :; do sleep 0.05; done'; echo $?
