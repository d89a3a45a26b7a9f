# A large sort.
seq 1 30000 | awk '{ print ($1 * 7919) % 30011 }' >n; sort -n n | head -n 3; sort -n n | tail -n 2; sort n | md5sum; sort -rn n | md5sum; sort -u n | wc -l
