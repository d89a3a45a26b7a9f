# du of apparent and used sizes in a fresh tree; df runs.
mkdir -p a/b; head -c 8192 /dev/zero >a/x; head -c 4096 /dev/zero >a/b/y; du -k a/x a/b/y; ln a/x a/hard; du -k a/x a/hard | wc -l; df >/dev/null; echo $?
