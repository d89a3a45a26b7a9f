# awk: numbers, functions, formatting.
awk 'BEGIN { print 1/3, 2^10, 7%3, int(3.9), sqrt(2), exp(0), log(1) }'
awk 'BEGIN { printf "%d %5.2f %s %x %c|%-5s|\n", 42, 3.14159, "str", 255, 65, "ab" }'
awk 'BEGIN { x = 5; x += 3; x++; print x, x > 8, x == 9, !x }'
seq 1 100 | awk '{ s += $1; q += $1 * $1 } END { print s, q, s / NR }'
awk 'BEGIN { print substr("hello", 2, 3), length("hello"), index("hello", "l"), toupper("abc") tolower("DEF") }'
