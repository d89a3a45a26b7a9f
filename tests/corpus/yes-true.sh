# true, false, yes with words, sync, clear-less.
true; echo $?; false; echo $?; yes a b | head -n 2; sync; echo $?; true ignored arguments; echo $?; : ; echo $?
