# Programs that are executed from the disk, while they are replaced and removed.
# cairn-test: root=debian
cp /bin/true prog && ./prog && echo ran; cp /bin/bash shell && ./shell -c 'echo from here'
./shell -c 'rm shell; ls; (echo "a child of $((6 * 7))"); /bin/true && echo "still runs"'
printf '#!/mnt/disk-programs/interpreter -u\nprint(6 * 7)\n' >script && cp /usr/bin/python3 interpreter && chmod +x script && ./script
cp /bin/sleep s; ./s 1000 & until [ "$(ps -o comm= -p $!)" = s ]; do sleep 0.1; done; cp /bin/true new && mv new s && ./s && echo "the new one"; kill %1; wait %1; echo $?
chmod 644 prog; ./prog 2>/dev/null; echo $?; : >empty && chmod +x empty && ./empty; echo $?; head -c 100 interpreter >cut && chmod +x cut && ./cut 2>/dev/null; echo $?
cp /usr/lib/x86_64-linux-gnu/libc.so.6 . && LD_LIBRARY_PATH=. ./interpreter -c 'print("with a library from the disk")'
