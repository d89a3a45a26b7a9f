# echo options and escapes.
echo -n no newline; echo; echo -e 'a\tb\nc\0101'; echo -E 'a\tb'; echo -- x; echo -ne 'x\n'
echo; echo '' | wc -c; echo "*"; echo \*
