# busybox, the static one: applets of each kind: a case is a command.
. /compat/common.sh
b=/bin/busybox
check 'applets' $b --list
check 'ash' $b sh -c 'x=$((3*4)); f() { local y=$1; echo $y $x; }; f a; set -- 1 2 3; shift; echo $@; for i in 1 2; do echo $i; done | while read l; do echo "<$l>"; done'
check 'ash, jobs' $b sh -c 'sleep 1 & p=$!; trap "echo t" TERM; kill -TERM $$; wait $p; echo $?; (exit 7); echo $?'
check 'awk' $b awk 'BEGIN { for (i = 0; i < 20; i++) s = s sprintf("%d:%x ", i, i * i); print s; "echo hi" | getline x; print x, length(x), substr("hello", 2, 3), match("foobar", "o+"), RSTART, RLENGTH }'
check 'sed' sh -c "seq 20 | $b sed -n '5,/9/{s/\(.\)/<\1>/;p};\$='"
check 'tar' sh -c "mkdir -p t/u; seq 100 >t/f; ln -s f t/l; ln t/f t/u/h; $b tar czf x.tgz t; rm -r t; $b tar xzf x.tgz; find t | sort; cksum t/u/h; stat -c %h t/f"
check 'cpio' sh -c "find t | sort | $b cpio -o -H newc 2>/dev/null | $b cpio -t 2>/dev/null"
for z in gzip bzip2 xz lzma; do check "$z" sh -c "$b $z -c </bin/true 2>/dev/null | $b $z -dc | cmp - /bin/true"; done
check 'unzip' $b unzip -l nothing
check 'diff' sh -c "seq 10 >a; sed 5d a >b; $b diff -u0 a b | tail -n +3; $b diff -u a b >p; $b patch -R b p; cmp a b"
check 'vi' sh -c "printf 'ihello\033:wq\n' | $b vi v >/dev/null; cat v"
check 'bc' sh -c "echo '2^200; scale=20; 4*a(1); sqrt(2)' | $b bc -l"
check 'dc' $b dc -e '10 3 ^ 7 % p'
check 'find' sh -c "$b find t -type f -exec wc -l {} \; | sort; $b find t -name 'h' -o -type l | sort"
check 'ps' sh -c "$b ps -o pid,comm | grep -c ' busybox\$'"
check 'pidof' sh -c "$b sleep 3 & sleep 0.3; $b pidof -s busybox | wc -l"
check 'top' sh -c "$b top -b -n 1 | head -n 1 | cut -c 1-4"
check 'free' sh -c "$b free | wc -l"
check 'df' sh -c "$b df / | wc -l"
check 'mount' sh -c "mkdir m; $b mount -t tmpfs -o size=64k none m && head -c 100000 /dev/zero >m/f; ls -l m/f | cut -d' ' -f5; $b umount m; ls m"
check 'stat' $b stat -c '%F %h %a' t/u/h
check 'dd' sh -c "$b dd if=/bin/true bs=100 count=3 2>&1 | cksum"
check 'hexdump' sh -c "$b hexdump -C a"
check 'sums' sh -c "for s in md5 sha1 sha256 sha512 sha3; do $b \${s}sum a; done"
check 'nc' sh -c "($b nc -l -p 4001 -s 127.0.0.1 >got &) ; sleep 0.5; echo over | $b nc -w 1 127.0.0.1 4001; sleep 0.3; cat got"
check 'httpd' sh -c "$b httpd -p 127.0.0.1:8081 -h t; sleep 0.5; $b wget -qO - http://127.0.0.1:8081/f | cksum"
check 'timeout' $b timeout 1 $b sleep 9
check 'flock' sh -c "$b flock lock sh -c 'sleep 1; echo 1' & sleep 0.3; $b flock -n lock echo no; echo \$?; $b flock lock echo 2"
check 'xargs' sh -c "seq 50 | $b xargs -n 7 -P 3 echo | cksum >/dev/null; seq 5 | $b xargs -I{} echo -{}-"
check 'sort' sh -c "seq 3000 | $b shuf | $b sort -rn | cksum"
check 'id' $b id
check 'who' sh -c "$b whoami; $b hostname | wc -w; $b uname -m"
check 'date' $b date -u -d @1700000000 '+%F %T'
check 'ipcs' sh -c "$b ipcs | grep -c ^---"
check 'setsid' $b setsid sh -c 'ps -o sid= -p $$ | grep -c "$$"'
check 'renice' sh -c "$b nice -n 3 sh -c '$b renice -n 2 -p \$\$ >/dev/null; nice'"
check 'chroot' sh -c "mkdir -p c/bin; cp $b c/bin; $b chroot c /bin/busybox ls /"
check 'start-stop-daemon' sh -c "$b start-stop-daemon -S -b -m -p \$PWD/pid -x $b -- sleep 50; sleep 0.3; $b start-stop-daemon -K -p \$PWD/pid | sed \"s|pid [0-9]*)|pid N)|\"; echo \$?"
check 'script' sh -c "$b script -qc 'tty >/dev/null; echo \$?' typed; cat typed | tr -d '\r'"
check 'less' sh -c "seq 5 | $b less"
check 'losetup' sh -c "$b losetup -a; echo \$?"
check 'inotifyd' sh -c "mkdir n; $b inotifyd - n:n & sleep 0.5; touch n/x; sleep 0.5; kill \$!"
check 'getopt' $b getopt -o ab: -l long -- -a -b x --long y
check 'tr, cut, rev' sh -c "echo 'Hello World' | $b tr a-z A-Z | $b cut -c 2-7 | $b rev"
check 'dos2unix' sh -c "printf 'a\r\nb\r\n' >d; $b dos2unix d; $b od -c d"
