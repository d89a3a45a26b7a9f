# Numbers with bc and awk agree.
for e in '1+2*3' '(4-1)*7' '2^16' '100/7' '17%5'; do echo "$e = $(echo "$e" | bc)"; done; echo 'scale=10; 4*a(1)' | bc -l | cut -c1-8; awk 'BEGIN { printf "%.6f\n", atan2(0, -1) }'; echo 'ibase=16; FF' | bc; echo '5 k 2 v p' | dc
