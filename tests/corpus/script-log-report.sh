# A report from a log: awk, sort, printf.
i=0; while [ $i -lt 200 ]; do echo "10.0.0.$((i % 7)) GET /page$((i % 5)) $((200 + (i % 3) * 100)) $((i * 37 % 1000))"; i=$((i + 1)); done >log
awk '{ n[$1]++; b[$1] += $4 } END { for (h in n) printf "%-12s %4d %8d\n", h, n[h], b[h] }' log | sort; awk '$3 != 200 { e[$2]++ } END { for (p in e) print p, e[p] }' log | sort -k2,2nr -k1,1 | head -n 3; cut -d' ' -f3 log | sort | uniq -c | awk '{ print $2 ":" $1 }'
