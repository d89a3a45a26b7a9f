# sort by fields, separators, stability.
printf 'carol 30 x\nalice 25 y\nbob 30 z\ndave 9 w\n' >f
sort -k2 -n f; sort -k2,2nr -k1,1 f; sort -k3 f
sort -t: -k3 -n /etc/passwd | cut -d: -f1
printf 'b 1\na 1\nc 0\n' | sort -s -k2,2; printf 'x,3\ny,1\n' | sort -t, -k2; printf '3 c\n1 a\n' | sort -k1.1,1.1; sort -z f | wc -c
