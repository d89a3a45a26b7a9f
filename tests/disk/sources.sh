# A tree of sources of 100 MB: packed, unpacked, built in part with make and a compiler, half deleted, compared.
# cairn-test: root=debian limit=1800 mem=512M disk=512M,-N,30000 only=linux
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
cd out/part07 && for f in f01 f02 f03 f04; do echo "$f"; done >list
printf 'all: prog\n\t./prog\nprog: main.o f01.o f02.o f03.o f04.o\n\ttcc -o $@ $^\n%%.o: %%.c\n\ttcc -c -o $@ $<\n' >Makefile
printf '#include <stdio.h>\nint part07_01(int), part07_02(int), part07_03(int), part07_04(int);\nint main(void) { printf("%%d\\n", part07_01(1) + part07_02(2) + part07_03(3) + part07_04(4)); return 0; }\n' >main.c
make -s && cd ../.. && find out -name 'f*[02468].c' | sort | xargs rm && find out -type f | wc -l
diff -rq src out | sort | sha256sum; rm -r src.tar src out && ls -A
