# env: setting, unsetting, a clean one; the PATH that commands begin with.
A=1 env | grep '^A='; env -u HOME sh -c 'echo [$HOME]'; env -i A=b env; env B=2 C=3 sh -c 'echo $B$C'; env | grep -E '^(HOME|PATH|USER)=' | sort; env sh -c 'exit 3'; echo $?
