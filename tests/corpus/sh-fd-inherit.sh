# Descriptors shared between processes keep one position.
printf '1\n2\n3\n4\n' >in
{ read a; (read b; echo "child $b"); echo "parent $a"; } <in
{ dd bs=2 count=1 2>/dev/null; dd bs=2 count=1 2>/dev/null; } <in
exec 3>out; (echo child >&3); echo parent >&3; exec 3>&-; cat out
