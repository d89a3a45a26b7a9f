# mkfifo, mknod, modes of special files.
mkfifo p; mkfifo -m 600 q; mknod r p; mknod c c 1 3; mknod b b 7 0; stat -c '%a %F %n' p q r c b; echo lost >c; cat c; stat -c '%t:%T' c b; mkfifo p 2>/dev/null; echo $?; mknod x c 1 5; head -c 3 x | od -An -tx1; rm p q r c b x
