# What nohup does: the hangup is ignored, also by programs started later; without it a hangup ends them.
(trap '' HUP; exec sh -c 'kill -HUP $$; echo survived; sh -c "kill -HUP \$\$; echo too"'); sh -c 'kill -HUP $$; echo not reached'; echo $?; setsid sh -c 'trap "" HUP; sleep 0.1; echo detached >out' & wait; cat out
