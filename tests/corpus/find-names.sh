# find by name, type, depth; order fixed by sort.
mkdir -p a/b/c d; touch a/x.c a/b/y.c a/b/c/z.h d/x.c; ln -s a l
find . | sort; find . -name '*.c' | sort; find . -type d | sort; find . -type l
find . -maxdepth 1 | sort; find . -mindepth 2 -name 'x*' | sort; find a -path '*b*' -type f | sort
find . -iname 'X.C' | sort; find . -name b -prune -o -name '*.c' -print | sort
