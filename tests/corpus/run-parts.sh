# run-parts executes in order what is executable.
mkdir d; for n in 20b 10a 30c; do printf '#!/bin/sh\necho %s "$@"\n' $n >d/$n; chmod +x d/$n; done; chmod -x d/30c; run-parts d; run-parts -a arg d; run-parts --test d | sort
