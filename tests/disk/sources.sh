# A tree of sources of 100 MB: packed, unpacked, built in part with make and a compiler, half deleted, compared.
# cairn-test: root=debian limit=1800 mem=512M disk=512M,-N,30000
python3 - <<'END'
import os
for d in range(100):
    os.makedirs('src/part%02d/sub' % d)
    for f in range(50):
        line = 'int part%02d_%02d(int x) { return x * %d + %d; }\n' % (d, f, d, f)
        comment = '// ' + 'what part %d of %d is for, in many words. ' % (f, d) * 8 + '\n'
        with open('src/part%02d/%sf%02d.c' % (d, 'sub/' if f % 5 == 0 else '', f), 'w') as out:
            out.write(line + comment * 58)
END
du -sb --apparent-size src | cut -f1; find src -type f | wc -l
tar cf src.tar -C src . && mkdir out && tar xf src.tar -C out && diff -r src out && echo same
find out -type f | sort | xargs cat | sha256sum
cd out/part07 && cat >Makefile <<'END'
objects := main.o $(patsubst %.c,%.o,$(sort $(wildcard f*.c sub/*.c)))
all: prog
	./prog
prog: $(objects)
	tcc -nostdlib -o $@ $^ /usr/lib/x86_64-linux-gnu/libc.so.6
%.o: %.c
	tcc -c -o $@ $<
END
# The root has no headers and no start-up code of the C library.
awk 'BEGIN { print "int printf(const char *, ...); void exit(int);"
    for (f = 0; f < 50; f++) printf "int part07_%02d(int);\n", f
    print "void _start(void) { int sum = 0;"
    for (f = 0; f < 50; f++) printf "sum += part07_%02d(%d);\n", f, f
    print "printf(\"%d\\n\", sum); exit(0); }" }' >main.c
make -s; make -s prog; ls -l *.o sub/*.o | wc -l; cd ../.. && find out -name 'f*[02468].c' | sort | xargs rm && find out -type f | wc -l
diff -rq src out | sort | sha256sum; rm -r src.tar src out; ls -A
