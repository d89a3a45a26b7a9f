# EXIT traps in shell and subshell.
trap 'echo leaving $?' EXIT
(trap 'echo inner' EXIT; echo in subshell)
echo body
false
exit 4
