# pidof and killall by the names of programs.
mkdir bin; cp /bin/busybox bin/busybox; ln bin/busybox bin/napper
cat >runner <<'END'
exec -a napper ./bin/busybox sleep 3000
END
sh -c 'exec ./bin/busybox sleep 3100' & p=$!
until grep -q '^..bin.busybox' /proc/$p/cmdline; do usleep 10000; done; ps -o pid,args | awk -v p=$p '$1 == p { $1 = ""; print }'; pidof nosuchprogram; echo $?; killall nosuchprogram 2>/dev/null; echo $?
kill $p; wait $p; echo $?; rm -r bin runner
