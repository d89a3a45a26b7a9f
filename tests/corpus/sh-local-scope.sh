# Dynamic scope of local, unset in functions, recursion with locals.
a() { local x=1; b; echo "a $x"; }; b() { x=2; }; x=0; a; echo $x; u() { unset x; }; x=5; u; echo ${x-unset}; r() { local n=$1; [ $n -gt 0 ] && r $((n - 1)); echo -n "$n "; }; r 5; echo
