# Traps of signals: handler, ignore, default.
trap 'echo usr1' USR1
trap 'echo usr2' USR2
kill -USR1 $$
kill -USR2 $$
trap '' TERM
kill -TERM $$
echo survived
trap - TERM
sh -c 'kill -TERM $$'; echo $?
sh -c 'trap "echo bye; exit 9" INT; kill -INT $$; echo not reached'; echo $?
