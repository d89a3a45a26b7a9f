# awk: associative arrays, in, delete, split, sorted output.
printf 'x 1\ny 2\nx 3\nz 4\ny 5\n' >f
awk '{ n[$1] += $2 } END { for (k in n) print k, n[k] }' f | sort
awk 'BEGIN { n = split("a:b:c", p, ":"); for (i = n; i > 0; i--) printf "%s", p[i]; print "" }'
awk '{ if ($1 in seen) print "again", $1; seen[$1] = 1 } END { delete seen["x"]; for (k in seen) c++; print c }' f
awk 'BEGIN { a[1,2] = 3; for (k in a) { split(k, s, SUBSEP); print s[1], s[2], a[k] } }'
