# Writers and readers that are missing.
sh -c 'exec 3>&1; (sleep 0.1; exit 5) | true; echo $?'; (exit 3) | cat; echo $?; true | (exit 4); echo $?; (trap '' PIPE; yes 2>/dev/null; echo $? >st) | true; until [ -s st ]; do usleep 10000; done; cat st; cat </dev/null | wc -c
