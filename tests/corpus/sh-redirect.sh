# Redirections: append, both streams, closing, duplicating, reading and writing.
echo one >f; echo two >>f; cat f
(echo out; echo err >&2) >both 2>&1; cat both
(echo out; echo err >&2) 2>err >out; cat err out
exec 3>three; echo to three >&3; exec 3>&-; cat three
exec 4<f; read a <&4; read b <&4; echo $b $a; exec 4<&-
echo x 2>/dev/null >&- || echo closed
: >empty; wc -c <empty
cat <f >g; cmp f g && echo same
