# Columns and sums of a table with awk; join by a key.
printf 'id,name,qty\n1,bolt,10\n2,nut,20\n3,gear,5\n' >items; printf '1,2.5\n2,0.5\n3,10\n' >prices
awk -F, 'NR == FNR { p[$1] = $2; next } FNR > 1 { t = p[$1] * $3; s += t; printf "%s %.2f\n", $2, t } END { printf "sum %.2f\n", s }' prices items
cut -d, -f2 items | tail -n +2 | sort | paste -s -d' '
