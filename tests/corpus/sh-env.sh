# Environment: export, unset, one command's own, env.
a=1 sh -c 'echo [$a]'; echo "[$a]"
export b=2; sh -c 'echo [$b]'; unset b; sh -c 'echo [$b]'
env -i x=y /bin/busybox env; env z=1 sh -c 'echo $z'
c=plain; sh -c 'echo [$c]'; export c; sh -c 'echo [$c]'
readonly r=5; (r=6) 2>/dev/null || echo readonly
