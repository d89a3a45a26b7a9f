# Ignored signals stay ignored through exec, handled ones do not.
(trap '' USR1; exec sh -c 'kill -USR1 $$; echo ignored'); (trap 'echo handler' USR1; exec sh -c 'kill -USR1 $$; echo lived'); echo $?; (trap '' INT; sh -c 'trap "echo x" INT; kill -INT $$; echo still ignored')
