# ps sees this shell and its children.
sleep 700 & p=$!; until grep -q sleep /proc/$p/comm; do usleep 10000; done
ps -o pid,comm | awk -v p=$p '$1 == p { print $2 }'
ps -o pid,ppid,comm | awk -v p=$p -v me=$$ '$1 == p { print ($2 == me) ? "my child" : "not mine" }'
ps | grep -c '[s]leep 700'
kill $p; wait $p 2>/dev/null; ps -o pid | grep -c "^ *$p\$"
