# Pagers without a terminal copy their input.
seq 1 5 | more; seq 1 3 >f; less f </dev/null; more f; cat f | less | tail -n 1
