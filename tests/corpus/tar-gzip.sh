# tar with gzip, name lists, single members, to standard output.
mkdir -p p/a p/b; seq 1 1000 >p/a/n; echo x >p/b/x; echo skip >p/b/y.o
tar czf t.tgz p; tar tzf t.tgz | sort; printf 'p/a/n\np/b/x\n' >names; tar cf - $(cat names) | gzip -c | tar tzf - | sort; mkdir x; tar xzf t.tgz -C x; diff -r p x/p && echo same; mkdir y; tar xzf t.tgz -C y p/b/x; find y | sort; zcat t.tgz | tar tf - | wc -l; tar xzf t.tgz -O p/b/y.o; rm t.tgz
