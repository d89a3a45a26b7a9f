# Statuses of children that signals ended.
sleep 1000 & p=$!; kill -9 $p; wait $p; echo $?
sleep 1000 & p=$!; kill -TERM $p; wait $p; echo $?
sleep 1000 & p=$!; kill -HUP $p; wait $p; echo $?
wait 99999 2>/dev/null; echo $?
