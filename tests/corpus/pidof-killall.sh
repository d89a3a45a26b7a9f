# pidof and killall by the names of programs.
mkdir bin; cp /bin/busybox bin/busybox; ln bin/busybox bin/napper
cat >runner <<'END'
exec -a napper ./bin/busybox sleep 30
END
sh -c 'exec ./bin/busybox sleep 31' & p=$!
sleep 0.2; ps -o pid,args | awk -v p=$p '$1 == p { $1 = ""; print }'; pidof nosuchprogram; echo $?; killall nosuchprogram 2>/dev/null; echo $?
kill $p; wait $p; echo $?; rm -r bin runner
