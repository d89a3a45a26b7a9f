# tail -f sees what is appended.
echo first >f; tail -f f >out & p=$!; sleep 0.3; echo second >>f; sleep 1.5; kill $p; wait $p 2>/dev/null; cat out
