# Interpreter lines, also through another script and with an argument; a file without one.
printf '#!/bin/sh\necho script "$@"\n' >s; chmod 755 s; ./s a 'b c'
printf '#!/bin/cat\ncontent\n' >c; chmod 755 c; ./c
printf '#!/usr/bin/awk -f\nBEGIN { print 6 * 7 }\n' >a; chmod 755 a; ./a
printf 'echo plain text\n' >p; chmod 755 p; ./p
printf '#!/no/such/interpreter\n' >n; chmod 755 n; ./n 2>/dev/null; echo $?
chmod 644 s; ./s 2>/dev/null; echo $?
