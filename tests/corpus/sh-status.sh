# Exit statuses: of commands, of missing and forbidden ones, of signals.
nosuchcommand 2>/dev/null; echo $?
touch plain; ./plain 2>/dev/null; echo $?
/tmp 2>/dev/null; echo $?
for s in 1 2 9 15; do sh -c "kill -$s \$\$"; echo $?; done
sh -c 'exit 256'; echo $?; sh -c 'exit 300'; echo $?
