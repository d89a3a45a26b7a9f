# tail -f sees what is appended.
echo first >f; tail -f f >out & p=$!; sleep 0.3; echo second >>f; until grep -q second out; do sleep 0.1; done; kill $p; wait $p 2>/dev/null; cat out
