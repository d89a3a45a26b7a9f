# Functions: arguments, return values, recursion, local variables, redirection of a whole function.
fact() { [ "$1" -le 1 ] && echo 1 && return; local below; below=$(fact $(($1 - 1))); echo $(($1 * below)); }
fact 10
v=outer
g() { local v=inner; echo $v; return 3; }
g; echo $? $v
h() { echo out; echo err >&2; } 2>&1
h | sort
