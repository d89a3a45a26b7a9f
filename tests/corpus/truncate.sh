# truncate: shrink, grow, relative, new files.
seq 1 100 >f; truncate -s 10 f; cat f; truncate -s 15 f; od -c f; truncate -s +5 f; stat -c %s f; truncate -s -3 f; stat -c %s f; truncate -s 1k new; stat -c %s new; truncate -c -s 5 nowhere; ls; : >f; stat -c %s f
