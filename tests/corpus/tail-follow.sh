# tail -f sees what is appended.
echo first >f; tail -f f >out & p=$!; until grep -q first out; do usleep 10000; done; echo second >>f; until grep -q second out; do usleep 10000; done; kill $p; wait $p 2>/dev/null; cat out
