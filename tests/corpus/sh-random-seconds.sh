# Special variables.
[ "$RANDOM" != "$RANDOM" ] || [ "$RANDOM" != "$RANDOM" ] && echo random; echo $PPID | grep -c '^[0-9]*$'; echo $- | grep -c .; (echo $$) | grep -cx $$; echo ${LINENO:-none} | grep -c .; set -- ; echo $#; echo "$_" | wc -l
