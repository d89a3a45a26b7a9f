# nohup: the hangup is ignored.
nohup sh -c 'kill -HUP $$; echo survived' >out 2>/dev/null </dev/null; cat out; sh -c 'kill -HUP $$; echo not reached'; echo $?
