# tr, cut, paste, rev, tac, nl, fold, expand.
echo hello | tr a-y b-z; echo hello | tr -d l; echo aabbcc | tr -s abc; echo Hi | tr '[:upper:][:lower:]' '[:lower:][:upper:]'; echo abc123 | tr -cd 0-9; echo
echo 'a:b:c' | cut -d: -f2; echo abcdef | cut -c2-4; echo 'a b c' | cut -d' ' -f1,3; printf 'x\ty\n' | cut -f2
printf '1\n2\n' >n; printf 'a\nb\n' >l; paste n l; paste -s -d, n; rev l; tac n l; nl n; fold -w 3 <<END
abcdefgh
END
printf 'a\tb\n' | expand -t 4; seq -s, 1 5; printf 'a  b\n' | unexpand -a
