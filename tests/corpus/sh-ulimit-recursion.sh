# Runaway recursion of functions ends in an error, not in a hang (depth limited by count).
f() { [ $1 -ge 500 ] && return 7; f $(($1 + 1)); }; f 0; echo $?
