# awk: fields, separators, NR, NF, patterns.
printf 'a b c\nd e f\ng h\n' >f
awk '{ print $1, $NF, NR, NF }' f; awk -F: '$3 > 0 { print $1 }' /etc/passwd; awk 'NR == 2' f; awk 'END { print NR }' f
awk '/e/ { print "match:", $0 }' f; awk 'BEGIN { FS = ":"; OFS = "-" } { $1 = $1; print }' /etc/group | head -n 2
awk '{ $2 = "X"; print }' f; awk 'NF < 3 { print NR ": short" }' f
