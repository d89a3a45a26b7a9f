# sort: default, reverse, unique, numeric, check.
printf 'pear\napple\nfig\napple\n' >f; sort f; sort -r f; sort -u f
printf '10\n9\n-1\n100\n2.5\n' | sort -n; printf '10\n9\n100\n' | sort
sort -c f 2>/dev/null; echo $?; sort f | sort -c && echo sorted
sort -o f f; cat f; printf 'b\nA\na\nB\n' | sort -f
