# Forty jobs at once write to one file by appending. cairn-test: cores=4
i=0
while [ $i -lt 40 ]; do (echo line >>all) & i=$((i + 1)); done
wait
wc -l <all
