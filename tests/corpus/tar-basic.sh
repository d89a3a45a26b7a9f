# tar: create, list, extract, modes, links.
mkdir -p d/sub; echo one >d/a; echo two >d/sub/b; ln -s a d/l; ln d/a d/hard; chmod 750 d/sub; chmod 600 d/sub/b; : >d/empty
tar cf t.tar d; tar tf t.tar | sort; mkdir x; tar xf t.tar -C x; diff -r d x/d && echo same; stat -c '%a %F %n' x/d/sub x/d/sub/b x/d/l; [ x/d/a -ef x/d/hard ] && echo hard link kept
tar cf - d | tar tf - | wc -l; tar xOf t.tar d/a; rm t.tar
