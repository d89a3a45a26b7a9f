# Lines from several writers into one pipe are not torn. cairn-test: cores=4
(for w in a b c d; do (i=0; while [ $i -lt 50 ]; do echo "$w$w$w$w$w$w$w$w$w$w"; i=$((i + 1)); done) & done; wait) | sort | uniq -c | awk '{ print $1, $2 }'
