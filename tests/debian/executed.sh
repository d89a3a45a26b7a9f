# Many executables, each a file of its own: all stay known to the file server, with what it has of them in memory.
mkdir bin
for n in $(seq 300); do cp /bin/true "bin/t$n"; done
for n in $(seq 300); do "bin/t$n" || echo "$n: $?"; done
sqlite3 :memory: 'select 1'; rm -r bin; echo gone
