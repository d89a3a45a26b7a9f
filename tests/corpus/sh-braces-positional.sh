# Positional parameters and shift, set --, $@ against $*.
f() { echo $#; for a in "$@"; do printf '(%s)' "$a"; done; echo; for a in "$*"; do printf '(%s)' "$a"; done; echo; }
f 'a b' c ''; set -- "$@"; f; set -- 1 2 3 4 5 6 7 8 9 10 11; echo ${10} ${11} $10
shift 9; echo "$@"; shift 5 2>/dev/null || echo too far
IFS=-; set -- a b c; echo "$*"
