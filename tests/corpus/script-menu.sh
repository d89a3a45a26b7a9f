# A menu driven by a here-document: read, case, functions.
total=0
while read -r cmd arg; do case $cmd in add) total=$((total + arg));; sub) total=$((total - arg));; show) echo "total $total";; quit) echo bye; break;; *) echo "unknown: $cmd";; esac; done <<'END'
add 5
show
sub 2
jump
show
quit
add 100
END
echo $total
