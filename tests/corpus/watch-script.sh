# A long-running loop that is ended by a signal from its child.
sh -c 'trap "echo stopped; exit 0" TERM; (sleep 0.2; kill -TERM $$) & while :; do sleep 0.05; done'; echo $?
