# eval, indirect names, generated code.
name=x; eval "$name=42"; echo $x
for i in 1 2 3; do eval "v$i=\$((i * i))"; done; echo $v1 $v2 $v3
eval 'f() { echo generated $1; }'; f ok
eval "$(echo 'echo from substitution')"
eval 'exit 6' & wait $!; echo $?
