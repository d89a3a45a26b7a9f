# Substitutions inside here-documents inside functions.
report() { cat <<END
lines: $(printf 'a\nb\n' | wc -l | tr -d ' ')
sum: $(( $(echo 4) + $(echo 5) ))
$(for i in 1 2; do echo "item $i"; done)
END
}
report | sed 's/^/# /'
