# Recursion and many nested processes.
f() { [ $1 -eq 0 ] && echo bottom || f $(($1 - 1)); }
f 200
nest() { if [ $1 -gt 0 ]; then (nest $(($1 - 1))); else echo inner; fi; }
nest 25
sh -c 'sh -c "sh -c \"sh -c \\\"echo four shells\\\"\""'
