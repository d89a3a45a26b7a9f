# Where set -e ends a shell and where it does not.
sh -ec 'if false; then :; fi; echo 1; false || true; echo 2; ! true; echo 3; false; echo 4'; echo $?
sh -ec 'f() { false; echo in f; }; f && echo and; echo after'; echo $?
sh -ec '(false); echo not reached'; echo $?
