# bash itself: jobs, coprocesses, arrays, process substitution, traps, patterns.
coproc cat
echo x >&"${COPROC[1]}"
read -r y <&"${COPROC[0]}"
echo "coproc $y"
exec {COPROC[1]}>&- {COPROC[0]}<&-
wait
shopt -s globstar extglob
mkdir -p tree/a/b && touch tree/1 tree/a/2 tree/a/b/3
echo tree/** tree/!(a)
printf '%(%Y)T\n' 0
echo $((2 ** 40)) $((16#ff)) ${PATH:+set}
[[ abc =~ b(.) ]] && echo "${BASH_REMATCH[1]}"
exec 5<>rw
echo hi >&5
cat rw <(echo one) <(echo two)
trap 'echo term' TERM
kill -TERM $$
trap - TERM
declare -A map=([key]=value [other]=2)
for key in key other; do echo "$key ${map[$key]}"; done
mapfile -t lines < <(printf '%s\n' a b c)
echo "${#lines[@]} ${lines[*]^^}"
sleep 0.1 & sleep 0.1 & wait && echo waited
(exit 7); echo $?
set -o pipefail
false | true; echo $?
time_out() { read -t 0.1 -r _ < <(sleep 1); echo $?; }
time_out
printf '%q\n' "a b'c"
ulimit -n
for ((i = 0; i < 500; i++)); do (exit 0); done; echo forked
