# awk: gsub, sub, match, regular expressions, concatenation, getline.
echo 'foo bar foo' | awk '{ n = gsub(/foo/, "[&]"); print n, $0; sub(/bar/, "x"); print }'
echo 'key=value' | awk 'match($0, /=/) { print RSTART, RLENGTH, substr($0, RSTART + 1) }'
awk 'BEGIN { while ("printf \"1\\n2\\n\"" | getline l) s = s "," l; print s }'
awk 'BEGIN { "echo cmd" | getline x; print x; close("echo cmd"); print "to pipe" | "cat"; }'
echo 'a1b22c333' | awk '{ gsub(/[0-9]+/, "#"); print }'; awk 'BEGIN { print "abc" ~ /^a.c$/, "abd" ~ /c/ }'
