# A tree of everything that a file system has, in the folder $1, with contents that depend on its name.
set -e
mkdir "$1" && cd "$1"
mkdir -m 2775 deep && mkdir -m 1777 deep/sticky && mkdir many
for n in $(seq 1 600); do echo "$1 $n" >"many/a-name-of-some-length-$n"; done
for n in $(seq 1 3 600); do rm "many/a-name-of-some-length-$n"; done
yes "$1 is large" | head -c 9000000 >large
truncate -s 3G sparse && printf middle | dd of=sparse bs=1 seek=2000000000 conv=notrunc status=none
yes fragment | head -c 40960 >pieces && fallocate -p -o 8192 -l 4096 pieces && fallocate -p -o 24576 -l 4096 pieces
fallocate -l 200000 reserved && printf begin | dd of=reserved conv=notrunc status=none
ln large deep/hard && ln -s ../large deep/fast && ln -s "$(printf '%0200d' 1)" slow
mkfifo fifo && mknod null c 1 3 && mknod disk b 254 3
: >empty && chmod 0 empty && cp /bin/true prog && chmod 6755 prog
printf odd >"$(printf 'odd \303\244\377\n name')"
chown 1000:2000 empty && chown -h 70000:80000 slow
python3 - <<'END'
import os
os.setxattr('large', 'user.note', b'on a large file')
os.setxattr('deep', 'user.long', b'v' * 1500)
os.setxattr('prog', 'trusted.t', bytes(range(200)))
END
touch -d '1999-12-31 23:59:59.123456789' large && touch -d '2300-01-01 00:00:00.5' empty && touch -h -d '2001-01-01' deep/fast && touch -d '1950-06-07' deep
