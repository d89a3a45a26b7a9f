# set -C, set -e, set -u, set -f, set -x.
set -C; echo a >f; (echo b >f) 2>/dev/null || echo refused; echo c >|f; cat f; set +C
(set -e; false; echo not reached); echo $?
(set -u; echo $nosuchvariable) 2>/dev/null; echo $?
touch a1 a2; set -f; echo a*; set +f; echo a*
(set -x; echo traced) 2>&1
