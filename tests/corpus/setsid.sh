# setsid and process groups.
setsid sh -c 'ps -o pid,sid,pgid 2>/dev/null | awk -v p=$$ "\$1 == p { print (\$2 == p && \$3 == p) ? \"leader\" : \"member\" }"'; setsid echo session; awk '{ print ($5 == $1) }' /proc/self/stat; sh -c 'exit 3' | cat; setsid sh -c 'exit 4'; echo $?
