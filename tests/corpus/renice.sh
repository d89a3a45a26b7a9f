# renice and the priority in /proc.
sleep 900 & p=$!; renice -n 7 -p $p >/dev/null; echo $?; awk '{ print $19 }' /proc/$p/stat; awk '{ print $19 }' /proc/self/stat; kill $p; wait $p; echo $?; renice -n 5 -p 999999 2>/dev/null; [ $? -ne 0 ] && echo nobody
