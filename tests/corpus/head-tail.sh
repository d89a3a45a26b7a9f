# head, tail: lines, bytes, from the start, several files.
seq 1 20 >f; head -n 3 f; tail -n 3 f; head -c 5 f; tail -c 4 f; tail -n +18 f; head f | wc -l; head -n -17 f; head -n 1 f f; tail -n 0 f; head -q -n 1 f f
printf 'no newline' | tail -n 1; echo
