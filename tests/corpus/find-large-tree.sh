# A tree of several hundred files.
for d in 1 2 3 4 5; do mkdir -p t/$d/s; for f in 1 2 3 4 5 6 7 8 9 10; do echo $d$f >t/$d/f$f; echo $f >t/$d/s/g$f; done; done
find t -type f | wc -l; find t -name 'f1*' | sort; find t -type f | sort | xargs cat | md5sum; rm -r t; ls
