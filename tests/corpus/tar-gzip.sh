# tar with gzip, exclusions, stripping, appending paths.
mkdir -p p/a p/b; seq 1 1000 >p/a/n; echo x >p/b/x; echo skip >p/b/y.o
tar czf t.tgz p; tar tzf t.tgz | sort; tar czf e.tgz --exclude '*.o' p; tar tzf e.tgz | sort; mkdir x; tar xzf t.tgz -C x --strip-components=1; find x | sort; mkdir y; tar xzf t.tgz -C y p/b/x; find y | sort; rm t.tgz e.tgz
