# xargs: packing, replacing, limits, status, empty input.
printf '1 2 3\n4 5\n' | xargs echo; printf '1\n2\n3\n' | xargs -n 1 echo item; printf 'a\nb\n' | xargs -I{} echo '<{}>'; printf 'x y\0z\0' | xargs -0 -n 1 echo
seq 1 10 | xargs -n 4 | cat; : | xargs -r echo not run; printf 'one "two three"\n' | xargs -n 1; echo 1 | xargs sh -c 'exit 3'; echo $?; seq 1 3000 | xargs echo | wc -w; printf '1\n2\n' | xargs -t echo 2>err; cat err
