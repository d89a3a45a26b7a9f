# ulimit: files, stack shown, lowered limits bite.
ulimit -n 20; ulimit -n; sh -c 'i=3; while [ $i -lt 9 ]; do eval "exec $i</dev/null"; i=$((i+1)); done; echo opened'; (ulimit -f 8; head -c 100000 /dev/zero >big; echo $?) 2>/dev/null; ulimit -c 0; ulimit -c
# Descriptors beyond a lowered limit take no room below it.
echo room >f; sh -c 'i=3; while [ $i -lt 10 ]; do eval "exec $i</dev/null"; i=$((i+1)); done; exec 3<&- 4<&-; ulimit -n 6; cat f'
