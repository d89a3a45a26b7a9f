# Subshells and groups: what stays inside.
a=1; (a=2; cd /; echo $a $(pwd)); echo $a; [ "$(pwd)" != / ] && echo stayed
{ a=3; echo group; } >out; cat out; echo $a
(exit 5); echo $?
(echo one; exit 1) || echo failed
( ( (echo three deep) ) )
