# Names of 255 bytes, UTF-8, newlines, leading dashes, blanks.
n=$(printf 'x%.0s' $(seq 1 255)); echo long >$n; cat $n; echo no >${n}y 2>/dev/null; echo $?; echo u >'äöü€'; cat 'äöü€'; echo d >./-dash; cat ./-dash; echo s >' blank '; cat ' blank '; touch 'new
line'; find . -type f | wc -l; rm -- $n -dash ' blank '; ls | tr '\n' '|'; echo
