# ed with a script.
printf 'one\ntwo\nthree\nfour\n' >f
ed -s f <<'END' 2>/dev/null || ed f <<'END2'
2d
$a
five
.
1,$s/o/0/
1i
zero
.
w
q
END
2d
$a
five
.
1,$s/o/0/
1i
zero
.
w
q
END2
cat f
