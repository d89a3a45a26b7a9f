# gcc, and make -j4 of a program of 100 small files.
. /compat/common.sh
for i in $(seq 100); do
    cat >"part$i.c" <<END
#include "all.h"
static int table[] = { $(seq -s, "$i" $((i + 20))) };
int part$i(int x) { int sum = x; for (unsigned n = 0; n < sizeof table / sizeof *table; n++) sum = sum * 31 + table[n]; return sum; }
END
done
{ echo '#include <stdio.h>'; for i in $(seq 100); do echo "int part$i(int);"; done; } >all.h
{ echo '#include "all.h"'; echo 'int main(void) { int x = 1;'; for i in $(seq 100); do echo "x = part$i(x);"; done; echo 'printf("%d\n", x); return 0; }'; } >main.c
cat >Makefile <<'END'
OBJECTS := main.o $(patsubst %,part%.o,$(shell seq 100))
program: $(OBJECTS)
	$(CC) -o $@ $^
%.o: %.c all.h
	$(CC) -O1 -c -o $@ $<
END
check 'make -j4' make -s -j4
check 'the program' ./program
check 'nothing to do' make -q -j4
touch part7.c
check 'one is newer' sh -c 'make -n | grep -c part7.c'
check 'one again' make -s
check 'the program again' ./program
echo 'int x = y;' >wrong.c
check 'an error' gcc -c wrong.c
check 'a pipe' sh -c 'echo "int main(void) { return 5; }" | gcc -pipe -x c - -o five; ./five'
check 'threads' sh -c 'printf "#include <pthread.h>\n#include <stdio.h>\nstatic void *f(void *p) { return p; }\nint main(void) { pthread_t t[8]; long n = 0; void *r; for (long i = 0; i < 8; i++) pthread_create(t + i, 0, f, (void *)i); for (int i = 0; i < 8; i++) { pthread_join(t[i], &r); n += (long)r; } printf(\"%%ld\\\\n\", n); }\n" >t.c; gcc -O2 -pthread t.c -o t && ./t'
check 'shared library' sh -c 'echo "int f(void) { return 7; }" >f.c; gcc -shared -fPIC f.c -o libf.so && echo "int f(void); int main(void) { return f(); }" | gcc -x c - -L. -lf -Wl,-rpath,. -o g && ./g'
check 'archive' sh -c 'gcc -c f.c && ar rcs libf2.a f.o && ar t libf2.a && nm libf2.a | grep -c " T f"'
check 'preprocessor' sh -c 'echo "__LINE__ __STDC_VERSION__" | gcc -E -P -'
check 'link time' sh -c 'gcc -flto -O2 f.c -x c - -o l <<END
int f(void); int main(void) { return f() - 7; }
END
./l'
check 'profile' sh -c 'gcc --coverage f.c -x c - -o p <<END
int f(void); int main(void) { return f() - 7; }
END
./p && ls *.gcda | wc -l'
