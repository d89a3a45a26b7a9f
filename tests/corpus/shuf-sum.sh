# sum, shuf keeps all lines, tsort-less.
seq 1 50 | shuf | sort -n | md5sum; seq 1 50 | md5sum; seq 1 10 | sum; shuf -n 3 -i 1-100 | wc -l; echo abc | sum
