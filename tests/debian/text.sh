# gawk, sed, grep, sort, find, lua, coreutils.
export LC_ALL=C
seq 1 1000 >n
gawk 'BEGIN { for (i = 0; i < 5; i++) a[i] = i * i; n = asort(a, b); for (i = 1; i <= n; i++) printf "%d ", b[i]; print strftime("%F", 0, 1)
    "echo sub" | getline d; print d; print toupper("abc") | "cat"; close("cat"); print length("abc"), substr("hello", 2, 3), gensub(/l+/, "L", 1, "hello") }'
gawk -F: '{ print $1, NF }' /etc/passwd | head -n 3
sed -n '/^1.0$/{p;=}' n
sed -i.bak 's/^\(.\)\(.\)$/\2\1/' n && cmp n n.bak | cut -d, -f1
grep -c 7 n; grep -nE '^(12|34)5?$' n; grep -rl 999 . ; grep -P '\d{4}' n
sort -R --random-source=/dev/zero n | sort -n | uniq -c | awk '$1 != 1' | wc -l
seq 1 100000 | sort -rn --parallel=2 | head -n 3
seq 1 1000 | xargs -P4 -n 100 echo | wc -w
mkdir -p d/e/f && touch d/1 d/e/2 d/e/f/3
find d -type f -newer n.bak -printf '%p %s %m\n' | sort
find d -depth -name '[23]' -exec basename {} \; -delete; find d | sort
lua5.4 -e 'local t = {} for i = 1, 5 do t[#t + 1] = i end print(table.concat(t, ","), io.open("/etc/passwd"):read("l"), ("x"):rep(3), 7 // 2, 1 / 3)
    local f = io.popen("echo popen") print(f:read("a")) f:close() print(pcall(error, "e"))'
split -n l/3 -d n s. && cat s.* | cmp - n
shuf -i 1-5 --random-source=/dev/zero | sort | tr '\n' ' '; numfmt --to=iec 1048576 2500000
paste -d, <(seq 3) <(seq 4 6); join <(printf 'a 1\nb 2\n') <(printf 'a x\nb y\n'); comm -12 <(seq 5) <(seq 3 9)
head -c 100000 /dev/zero | sha256sum; printf 'x' | b2sum; cksum n; base32 <<<text
tac n | head -n 2; fold -w 3 <<<abcdefgh; fmt -w 10 <<<'a b c d e f g h i'; expand <<<$'a\tb'; od -An -tx1 <<<hi; ptx <<<'one two' | wc -l
dd if=/dev/zero of=z bs=1k count=100 conv=fsync status=none; truncate -s 1M sp; du -k z sp; stat -c '%s %b' sp
cp --sparse=always z y && cmp z y; cp --reflink=auto -a d d2; install -m 751 n inst; stat -c '%a %s' inst
timeout 0.2 sleep 5; echo $?; timeout -s KILL 0.1 sleep 5; echo $?
env -i A=b env; nice -n 5 nice; nohup echo hup 2>/dev/null; stdbuf -oL echo buf; realpath --relative-to=/usr /etc; readlink -f /bin/sh
rm -f z y
