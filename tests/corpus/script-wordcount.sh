# A program of several tools: the most frequent words.
cat >text <<'END'
the quick brown fox jumps over the lazy dog the fox
a dog and a fox are not the same as the cat
END
tr -s ' ' '\n' <text | sort | uniq -c | sort -k1,1nr -k2 | head -n 5 | awk '{ print $2, $1 }'
tr 'a-z' 'A-Z' <text | fold -w 20 | sed 's/ *$//' | nl -b a | tail -n 2
