# Default actions: which signals end a process, which do not.
for s in HUP INT QUIT ABRT USR1 SEGV USR2 PIPE ALRM TERM; do sh -c "kill -$s \$\$; echo lived" 2>/dev/null; echo "$s $?"; done; for s in CHLD CONT WINCH URG; do sh -c "kill -$s \$\$; echo lived"; done
