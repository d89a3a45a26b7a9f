# Something built: a compiler, make, an archive of what came out.
mkdir src && cd src
for n in $(seq 1 20); do echo "int f$n(int x) { return x + $n; }" >"f$n.c"; done
{
    echo '#include <stdio.h>'
    for n in $(seq 1 20); do echo "int f$n(int);"; done
    echo 'int main(int c, char **v) { int s = c;'
    for n in $(seq 1 20); do echo "s = f$n(s);"; done
    echo 'printf("%d %s\n", s, v[0]); return 0; }'
} >main.c
cat >Makefile <<'END'
objects := $(patsubst %.c,%.o,$(sort $(wildcard *.c)))
prog: $(objects)
	tcc -o $@ $^
%.o: %.c
	tcc -c -o $@ $<
clean:
	rm -f $(objects) prog
.PHONY: clean
END
make 2>&1 | tail -n 1
./prog
make
touch f3.c && make | head -n 1
make -j4 -B >/dev/null && ./prog again
tcc -run main.c f*.c one two
make clean >/dev/null
ls | wc -l
tar cf - . | (mkdir ../copy && tar xf - -C ../copy)
diff -r . ../copy && echo same
make -C ../copy --no-print-directory -s && ../copy/prog
rm -rf ../copy
