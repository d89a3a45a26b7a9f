# uniq: count, duplicates, unique ones, fields.
printf 'a\na\nb\nc\nc\nc\n' >f; uniq f; uniq -c f | sed 's/^ *//'; uniq -d f; uniq -u f
printf '1 x\n2 x\n3 y\n' | uniq -f 1; printf 'a\nA\n' | uniq -i; sort -r f | uniq | tr '\n' ' '; echo
