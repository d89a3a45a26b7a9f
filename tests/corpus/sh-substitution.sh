# Command substitution: nesting, trailing newlines, status, large output.
echo "$(echo a; echo b)" `echo back` "$(echo "$(echo "deep $(echo deeper)")")"
x=$(printf 'a\n\n\n'); echo "[$x]"
y=$(exit 3); echo $?
z=$(seq 1 20000); echo ${#z}
echo $(cat /dev/null)end
