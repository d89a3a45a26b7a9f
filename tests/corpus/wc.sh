# wc of files and pipes.
printf 'one two\nthree\n' >f; wc f; wc -l f; wc -w <f; wc -c <f; wc -L <f; wc f f; printf 'x' | wc; : | wc -l
