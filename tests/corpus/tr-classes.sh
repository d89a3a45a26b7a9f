# Classes, complements, ranges, squeezes in tr.
echo 'Hello, World 123' | tr -d '[:punct:]'; echo 'a  b' | tr -s ' '; echo abc | tr 'a-c' 'A-C'; echo 'x1y2' | tr -d '[:alpha:]'; echo hello | tr 'el' 'ip'; printf 'a\tb\n' | tr '\t' ' '; echo abc | tr -c 'b\n' '.'
