# for loops over words, globs, arguments; break and continue with a depth.
for i in a b "c d"; do echo "<$i>"; done
set -- x y z
for i; do echo "$i"; done
touch f1 f2 f3
for f in f*; do echo "$f"; done
for i in 1 2 3; do for j in 1 2 3; do [ $j = 2 ] && continue 2; [ $i = 3 ] && break 2; echo $i$j; done; done
for i in nothing*; do echo "$i"; done
