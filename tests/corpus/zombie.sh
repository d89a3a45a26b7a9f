# A zombie is seen until it is collected; orphans go to process 1.
sh -c 'sh -c "exit 3" & sleep 0.3; ps -o stat,comm | grep -c "^Z"; wait $!; echo $?' 2>/dev/null
sh -c '(sleep 0.2; awk "{ print \$4 }" /proc/self/stat >ppid.tmp; mv ppid.tmp ppid) & exit 0'; while ! [ -e ppid ]; do sleep 0.05; done; sh -c '[ $(cat ppid) -ge 1 ] && echo adopted'; rm ppid
