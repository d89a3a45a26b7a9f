# printf formats.
printf '%d %5d|%-5d|%05d %x %X %o\n' 42 42 42 42 255 255 8
printf '%s|%10s|%-10s|%.2s\n' abc abc abc abc
printf '%c%c %% %b\n' x yz 'tab\there'
printf '%s\n' a b c
printf '%5.2f %e %g\n' 3.14159 1234.5 0.0001
printf '\101\x42\n'
printf '%d\n' 0x10 010 "'A"
