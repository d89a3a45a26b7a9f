# Here-documents: expanded, literal, with tabs stripped, several at once, into a loop.
v=value
cat <<END
v=$v $(echo sub) \$v
END
cat <<'END'
v=$v $(echo sub)
END
	cat <<-END
	indented $v
	END
cat <<A; cat <<B
first
A
second
B
while read l; do echo "> $l"; done <<END
1
2
END
