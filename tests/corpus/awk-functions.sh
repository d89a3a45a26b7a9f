# awk: user functions, recursion, arrays by reference, control flow.
awk 'function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) } BEGIN { for (i = 0; i < 15; i++) printf "%d ", f(i); print "" }'
awk 'function fill(a, n, i) { for (i = 1; i <= n; i++) a[i] = i * i } BEGIN { fill(x, 5); for (i = 1; i <= 5; i++) print x[i] }'
awk 'BEGIN { i = 0; while (1) { if (++i > 5) break; if (i == 3) continue; print i } do i--; while (i > 2); print i; exit 3 }'; echo $?
