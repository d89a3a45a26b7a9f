# vi driven by keys from a file (no terminal).
printf 'one\ntwo\nthree\n' >f
printf 'jddGoappended\033:wq\n' | vi f >/dev/null 2>&1
cat f
