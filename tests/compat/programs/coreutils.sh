# GNU coreutils and findutils: a case is a command.
. /compat/common.sh
umask 022
names() { find "$@" -printf '%P %y %m %s %n %l\n' | sort; }
check 'mkdir -p' mkdir -p -m 751 a/b/c
check 'touch' touch -d '2001-02-03 04:05:06.789 UTC' a/f a/b/g
check 'stat' sh -c 'stat -c "%n %a %h %F" a a/f a/b a/b/g; stat -c "%s %y" a/f a/b/g'
check 'ln' ln a/f a/h
check 'ln -s' ln -s ../f a/b/s
check 'readlink' readlink -f a/b/s
check 'mkfifo' mkfifo a/p
check 'mknod' mknod a/null c 1 3
check 'write to it' sh -c 'echo x >a/null; wc -c a/null </dev/null'
check 'cp -a' cp -a a copy
check 'cp -a, after' names copy
check 'cp --sparse' sh -c 'truncate -s 1M hole; cp --sparse=always hole hole2; stat -c "%s %b" hole2'
check 'cp --reflink' cp --reflink=auto /bin/true true
check 'cmp' cmp /bin/true true
check 'mv' mv copy/b moved
check 'mv onto' mv -n a/f a/h
check 'mv to another file system' sh -c 'mkdir -p /tmp/other; mount -t tmpfs none /tmp/other; mv moved /tmp/other/ && find /tmp/other | sort; umount /tmp/other'
check 'install' install -D -m 600 /bin/true x/y/z
check 'install, after' names x
check 'chmod' sh -c 'chmod u=rwx,g+s,o-r x/y; stat -c %A x/y; chmod +t x; stat -c %A x'
check 'chown' sh -c 'chown 1000:1001 x/y/z; stat -c "%u %g %a" x/y/z; chgrp 5 x; stat -c %g x'
check 'rmdir' rmdir a
check 'rm' rm -r copy
check 'dd' sh -c 'seq 1000 | dd bs=7 skip=3 count=40 status=none | cksum'
check 'dd conv' sh -c 'echo hello | dd conv=ucase,swab status=none'
check 'dd seek' sh -c 'echo abc | dd of=d bs=1 seek=4096 status=none; stat -c %s d; cksum d'
check 'dd append' sh -c 'echo abc | dd of=d oflag=append conv=notrunc status=none; stat -c %s d'
check 'dd direct' sh -c 'dd if=/dev/zero of=e bs=4096 count=4 oflag=sync status=none; stat -c %s e'
check 'truncate' sh -c 'truncate -s 5000 t; truncate -s -1 t; truncate -s %512 t; stat -c %s t'
check 'split' sh -c 'seq 10000 | split -l 900 - part.; ls part.* | wc -l; cat part.* | cksum; rm part.*'
check 'csplit' sh -c 'seq 30 | csplit -s - 10 20; wc -l xx*'
check 'sort' sh -c 'seq 20000 | shuf --random-source=/bin/bash | sort -n | cksum'
check 'sort, small memory' sh -c 'seq 60000 | sort -S 100k -T . -r | cksum'
check 'sort --parallel' sh -c 'seq 60000 | sort --parallel=4 -k1.3 | cksum'
check 'uniq, comm, join' sh -c 'seq 1 3 20 >u; seq 1 2 20 >v; sort u -o u; sort v -o v; comm u v; join u v; cat u v | sort | uniq -c'
check 'cut, paste' sh -c 'seq 9 | paste - - - | cut -f 2- | tr "\t" :'
check 'head, tail' sh -c 'seq 1000 | head -n -990; seq 1000 | tail -c +3880; tail -n 3 u; head -c 5 u'
check 'tail -f' sh -c 'echo 1 >w; (sleep 1; echo 2 >>w; sleep 1) & timeout 10 tail -f -s 0.1 --pid=$! w'
check 'tee' sh -c 'echo x | tee k l m; cat k l m'
check 'nl, fmt, fold, pr' sh -c 'seq 300 | fmt -w 60 | nl | fold -w 33 | cksum; seq 5 | pr -t -3'
check 'od' od -A x -t x1z -N 100 /bin/true
check 'base64' sh -c 'base64 /bin/true | base64 -d | cmp - /bin/true'
check 'sums' sh -c 'for s in md5 sha1 sha224 sha256 sha384 sha512 b2; do ${s}sum </bin/true; done; sum u; cksum u'
check 'checked sums' sh -c 'sha256sum u v >sums; echo >>v; sha256sum -c sums'
check 'date' date -u -d '2023-11-27 03:04:05 +2 days' '+%F %T %j %s %A'
check 'date of a file' sh -c 'touch -d @1000000000 z; date -r z +%s'
check 'numbers' sh -c 'numfmt --to=iec 123456789; factor 123456789012; seq -w 8 11; expr 7 \* 6; printf "%05d|%x|%q\n" 42 255 "a b"'
check 'test' sh -c 'test -e u -a -f u -a ! -d u && test u -nt v || test a/f -ef a/f && test -p a/p && test -c a/null && echo so'
check 'env' env -i A=1 B=2 sh -c 'echo $A$B; env | sort'
check 'nohup' sh -c 'nohup echo x'
check 'nice' sh -c 'nice -n 5 nice'
check 'timeout' timeout 1 sleep 20
check 'timeout -s' timeout -s KILL 1 sleep 20
check 'timeout, foreground' timeout --preserve-status -s INT 1 sleep 20
check 'sleep' sleep 0.1
check 'kill -l' sh -c '/bin/kill -l | tr "\n" " "; kill -l 9'
check 'stdbuf' stdbuf -oL echo x
check 'mktemp' sh -c 'n=$(mktemp -d ./t.XXXXXX); stat -c %a $n; rmdir $n'
check 'pathchk' pathchk -p 'a b'
check 'realpath' realpath --relative-to=/usr/lib /usr/bin/env
check 'df' sh -c 'df -P . | wc -l; df --output=target / | tail -n 1'
check 'du' sh -c 'mkdir du; head -c 100000 /dev/zero >du/f; du -k --apparent-size du/f'
check 'ls' ls -lRn --time-style=+ x a/b
check 'ls sorted' ls -S /etc
check 'ls, inodes differ' sh -c 'ls -i a/f a/b/g | awk "{ print \$1 }" | uniq | wc -l'
check 'find' find x a -newermt 2000-01-01 ! -newermt 2002-01-01 -type f
check 'find -exec' sh -c 'find a -type f -exec stat -c "%n %s" {} + | sort'
check 'find -delete' sh -c 'mkdir -p q/r/s; touch q/r/s/t; find q -delete; ls q'
check 'xargs' sh -c 'seq 1000 | xargs -n 100 echo | cksum; seq 8 | xargs -P 4 -I{} sh -c "echo {}" | sort'
check 'xargs, a failure' sh -c 'seq 3 | xargs -n 1 sh -c "exit 3"'
check 'id' sh -c 'id; id -un; groups'
check 'who' sh -c 'whoami; logname 2>/dev/null; tty'
check 'uname' sh -c 'uname -m; uname -o; arch'
check 'stty' sh -c 'stty'
check 'chroot' chroot / /bin/echo inside
check 'sync' sync u
check 'shred' sh -c 'echo secret >sh; shred -u -n 2 sh; ls sh'
check 'unlink' sh -c 'unlink u; unlink u'
check 'full' sh -c 'echo x >/dev/full'
check 'closed' sh -c 'echo x >&-'
check 'a reader that ends' sh -c 'yes | head -n 3'
check 'rm of a folder' rm a
check 'rm /' rm -r /
check 'cp onto itself' cp v v
check 'long name' touch "$(head -c 256 /dev/zero | tr '\0' n)"
check 'deep' sh -c 'i=0; while [ $i -lt 200 ]; do mkdir deep-folder-name; cd deep-folder-name; i=$((i + 1)); done; pwd | wc -c; touch f; find . | wc -l'
check 'deep, removed' rm -r deep-folder-name
check 'many names' sh -c 'mkdir many; cd many; seq 3000 | xargs touch; ls | wc -l; ls -U | sort -n | cksum; cd ..; rm -r many'
