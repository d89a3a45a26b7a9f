# Quotes, escapes, word splitting, IFS.
a='one  two'; echo $a; echo "$a"; echo '$a' \$a "\$a"
printf '<%s>' $a; echo
IFS=:; p=a:b::c; for w in $p; do echo "[$w]"; done; unset IFS
echo "tab	end" 'it'\''s' "new
line"
echo $'a\tb\x41'
