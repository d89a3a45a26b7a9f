# pidof, killall, pgrep, pkill.
cp /bin/busybox ./napper; ln -s napper sleep; ./sleep 30 & p=$!
sleep 0.1; pgrep -f './sleep 30' | grep -c "^$p\$"; pkill -f './sleep 30'; wait $p; echo $?; pgrep -f nosuchthing; echo $?; killall nosuchprogram 2>/dev/null; echo $?; rm napper sleep
