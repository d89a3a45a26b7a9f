# Pipelines: order, status of the last, negation, many stages.
echo hello | tr a-z A-Z | rev
true | false; echo $?
false | true; echo $?
! true; echo $?
seq 1 100 | cat | cat | cat | cat | cat | cat | tail -n 1
echo x | while read v; do echo "in $v"; done
