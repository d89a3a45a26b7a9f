# exec replaces the shell; exec with redirections only changes it.
sh -c 'exec echo replaced; echo not reached'
sh -c 'exec >out; echo to file; exec cat /etc/hostname'; cat out
sh -c 'exec /no/such/program' 2>/dev/null; echo $?
(exec sh -c 'exit 11'); echo $?
