# Page faults of a process and of the children that it waited for.
field() { sed 's/.*) //' /proc/$$/stat | cut -d ' ' -f $(($1 - 2)); }
[ "$(field 10)" -gt 0 ] && echo 'own ones'
before=$(field 11)
busybox sleep 0
busybox ls / >/dev/null
[ "$(field 11)" -gt "$before" ] && echo 'and those of children'
before=$(field 10)
text=x
for turn in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18; do text=$text$text; done
[ ${#text} = 262144 ] && [ "$(field 10)" -gt "$before" ] && echo 'more with memory'
