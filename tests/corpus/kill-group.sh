# A whole process group dies by one kill.
setsid sh -c 'trap "" HUP; sleep 2000 & sleep 2000 & echo $$ >leader.new; mv leader.new leader; wait' &
until [ -e leader ]; do usleep 10000; done; l=$(cat leader); kill -TERM -$l; wait
while ps | grep -q '[s]leep 2000'; do usleep 10000; done; echo all asleep are gone
while kill -0 -$l 2>/dev/null; do usleep 10000; done; echo group gone; rm leader
