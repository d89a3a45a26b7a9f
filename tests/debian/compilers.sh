# Compilers at run time, which write code and execute it: LuaJIT with calls to C and from there, PCRE2's by grep -P. (node and Java: tests/run-time-compilers.sh)
luajit -e 'local s = 0 for i = 1, 2e6 do s = s + i % 7 end print(s, (jit.status()))'
luajit -e 'local ffi = require "ffi" ffi.cdef "int getpid(void); void qsort(void *, size_t, size_t, int (*)(const int *, const int *));"
    print(ffi.C.getpid() > 0)
    local list = ffi.new("int[8]", 5, 3, 8, 1, 9, 2, 7, 4)
    local compare = ffi.cast("int (*)(const int *, const int *)", function(a, b) return a[0] - b[0] end)
    ffi.C.qsort(list, 8, 4, compare) compare:free()
    local t = {} for i = 0, 7 do t[#t + 1] = list[i] end print(table.concat(t, " "))'
luajit -joff -e 'print((jit.status()))'
seq 1 200000 | grep -cP '^(?=.*7)(?!.*[13579]$)\d+$'
printf 'foo bar\nfoofoo\nabba\n' | grep -oP '(?<=foo)\w*|\bbar\b|(\w)(\w)\2\1'
