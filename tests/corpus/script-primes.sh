# Sieve in shell and in awk agree.
awk 'BEGIN { n = 500; for (i = 2; i <= n; i++) if (!c[i]) { printf "%d ", i; for (j = i * i; j <= n; j += i) c[j] = 1 } print "" }' >a
i=2; while [ $i -le 100 ]; do j=2; p=1; while [ $((j * j)) -le $i ]; do [ $((i % j)) = 0 ] && p=0 && break; j=$((j + 1)); done; [ $p = 1 ] && printf '%d ' $i; i=$((i + 1)); done >b; echo >>b; cat b; cut -c1-20 a; md5sum <a
