# truncate: shrink, grow, new files, and by dd and redirection.
seq 1 100 >f; truncate -s 10 f; cat f; truncate -s 15 f; od -c f; truncate -s 1k new; stat -c %s new; truncate -c -s 5 nowhere; ls; : >f; stat -c %s f; seq 1 9 >g; dd if=/dev/null of=g bs=1 seek=5 2>/dev/null; cat g; truncate -s x f 2>/dev/null; echo $?; mkdir d; truncate -s 0 d 2>/dev/null; echo $?
