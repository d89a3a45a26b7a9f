# while, until, loops with redirection, read in a loop.
i=0
while [ $i -lt 5 ]; do i=$((i + 1)); [ $i = 3 ] && continue; echo $i; done
until [ $i -eq 0 ]; do i=$((i - 1)); done
echo $i
printf 'one 1\ntwo 2\nthree 3\n' >in
while read -r name number; do echo "$number=$name"; done <in >out
cat out
