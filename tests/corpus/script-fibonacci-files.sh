# Numbers passed through files by many processes.
echo 0 >a; echo 1 >b; i=0; while [ $i -lt 40 ]; do expr $(cat a) + $(cat b) >c; mv b a; mv c b; i=$((i + 1)); done; cat a b
