# Eight workers compute, the results are put together in order. cairn-test: cores=4
for w in 0 1 2 3 4 5 6 7; do (i=$w; s=0; while [ $i -lt 400 ]; do s=$((s + i)); i=$((i + 8)); done; echo $s >r$w) & done; wait; cat r* | paste -s -d+ | bc; cat r0 r7
