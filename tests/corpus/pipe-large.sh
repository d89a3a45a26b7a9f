# 20 MB through a pipeline arrive intact.
head -c 20000000 /dev/zero | tr '\0' 'x' | md5sum; head -c 5000000 /dev/zero | cat | cat | wc -c; seq 1 300000 | cat | tail -n 1
