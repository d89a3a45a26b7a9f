# sed: substitute, flags, delete, print, ranges, addresses.
printf 'one\ntwo\nthree\nfour\nfive\n' >f
sed 's/o/0/' f; sed 's/e/E/g' f; sed -n '2,4p' f; sed '2d;4d' f; sed '/three/d' f; sed -n '/two/,/four/p' f; sed '$d' f; sed -n '$=' f
sed '1!s/^/x/' f; sed 's/\(t\)\(.\)/\2\1/' f; sed -E 's/(f)(.)/<\1-\2>/' f; sed 's|o|/|' f; sed -n 's/e$/!/p' f
