# sh -c with names and arguments, sh -s, options.
sh -c 'echo $0 $1 $#' name one two; echo 'echo $1' | sh -s arg; sh -c 'echo "$@"' x a 'b c'; sh -n -c 'syntax ( error' 2>/dev/null; echo $?; sh -c 'if' 2>/dev/null; echo $?; sh nowhere.sh 2>/dev/null; echo $?; sh -xc 'echo t' 2>&1
