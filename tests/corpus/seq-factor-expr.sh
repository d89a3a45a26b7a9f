# Small calculators: seq, factor, expr, bc, dc.
seq 5; seq 2 4; seq 10 -3 1; seq -w 8 11; seq 0.5 0.5 2; factor 12 97 1001 4294967296
expr 1 + 2 \* 3; expr abc : 'a\(.*\)'; expr length hello; expr 5 \> 3; expr substr hello 2 3; expr 0; echo $?
echo '2^64; scale=5; 10/3; sqrt(2)' | bc; echo '2 3 + 4 * p' | dc
