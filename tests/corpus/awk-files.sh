# awk writes files, reads several, uses variables from the command line.
seq 1 9 | awk '{ print > ("mod" $1 % 3) }'; cat mod0 mod1 mod2
awk -v v=hello 'BEGIN { print v, ARGC }' a b; awk 'FNR == 1 { print FILENAME, NR }' mod0 mod1
awk '{ print x $1 }' x=A mod0 x=B mod1; awk 'BEGIN { print ENVIRON["HOME"] }'; awk 'BEGIN { printf "a" > "/dev/stderr" }' 2>e; cat e; echo
