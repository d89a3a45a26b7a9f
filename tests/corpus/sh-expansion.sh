# Parameter expansion.
x=path/to/file.tar.gz
echo ${x##*/} ${x#*/} ${x%.*} ${x%%.*} ${#x}
unset y; echo ${y:-default} ${y-unset} ${y:=assigned} $y ${x:+set}
echo ${x:0:4} ${x: -2} ${x/to/from} ${x//\//:}
e=; echo "[${e:-null}]" "[${e-unset}]"
set -- a b c d; echo $# "$*" "${#}" $3; shift 2; echo "$@"
(: ${nosuch:?is missing}) 2>/dev/null; echo $?
