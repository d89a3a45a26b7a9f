# cp -a keeps times, modes, links, special files.
mkdir s; echo x >s/f; chmod 4755 s/f; touch -t 202001020304.05 s/f; ln s/f s/h; ln -s f s/l; mkfifo s/p; mkdir -m 1777 s/t; touch -t 202001020304.06 s/t s/p; touch -h -t 201901010000 s/l 2>/dev/null
cp -a s c; stat -c '%a %Y %F %n' c/f c/t c/p; readlink c/l; stat -c '%h %s' c/f; diff -r s/f c/f && echo same
