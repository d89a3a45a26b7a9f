# sed: append, insert, change, transliterate, in place, scripts, several commands.
printf 'a\nb\nc\n' >f
sed '2a\
after' f; sed '2i\
before' f; sed '2c\
changed' f; sed 'y/abc/xyz/' f; sed -i 's/b/B/' f; cat f; sed -e 's/a/1/' -e 's/c/3/' f
printf 's/B/22/\n/c/d\n' >script; sed -f script f; sed -i.bak 1d f; cat f f.bak; sed q f.bak; sed -n '$p' f f.bak; sed 'w copy' f >/dev/null; cat copy; sed -n '/B/r script' f.bak; sed '1~2d' f.bak 2>/dev/null; sed '2q7' f.bak 2>/dev/null; echo $?
