# test: files, strings, numbers, times.
touch f; mkdir d; ln -s f l; ln -s nowhere broken; mkfifo p; echo x >s; chmod 000 s
for t in -e -f -d -L -p -s -r; do for x in f d l broken p s; do [ $t $x ] && printf '%s%s ' $t $x; done; done; echo
[ 10 -gt 9 ] && [ 10 -ge 10 ] && [ 1 -ne 2 ] && echo numbers
[ "a" \< "b" ] && echo order
touch -t 202001010000 old; touch -t 202101010000 new; [ new -nt old ] && [ old -ot new ] && echo times
ln f hard; [ f -ef hard ] && echo same file
[ ! -e nothing ] && echo nothing; [ -c /dev/null ] && echo device; [ -t 0 ] || echo no terminal
