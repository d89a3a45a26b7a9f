# The dot command: variables stay, arguments, return.
echo 'sourced=yes; f() { echo function; }; return 5' >lib
. ./lib; echo $? $sourced; f
echo 'echo in $0' >prog; sh prog; chmod +x prog; ./prog; echo $?
