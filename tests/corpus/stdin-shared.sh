# Several readers of one standard input.
seq 1 10 | { head -n 1 >/dev/null; cat >/dev/null; echo fine; }; seq 1 5 >f; { read a; read b; cat; } <f; sh <<'END'
echo from stdin
read x
data for read
echo "got $x"
END
