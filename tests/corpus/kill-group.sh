# A whole process group dies by one kill.
setsid sh -c 'trap "" HUP; sleep 20 & sleep 20 & echo $$ >leader; wait' & sleep 0.3; l=$(cat leader); kill -TERM -$l; wait; ps | grep -c '[s]leep 20'; kill -0 -$l 2>/dev/null || echo group gone; rm leader
