# expr and string tests in loops.
s=abcdef; i=1; while [ $i -le 6 ]; do printf '%s ' "$(expr substr $s $i 1)"; i=$(expr $i + 1); done; echo; expr 10 / 3; expr 10 % 3; expr 2 '*' 21; expr a = a; expr a = b; echo $?; expr index hello l; expr match abc123 '[a-z]*'; expr '(' 1 + 2 ')' '*' 3; expr 1 / 0 2>/dev/null; echo $?; expr 5 '|' 0; expr 0 '&' 5
