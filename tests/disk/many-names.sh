# Ten thousand names in one folder: made, listed, looked up, renamed, half of them removed, and the folder emptied.
# cairn-test: limit=600 disk=64M,-N,20000
mkdir m && cd m
seq -f 'a-name-that-is-not-short-%05.0f' 1 10000 2>/dev/null >/tmp/names || awk 'BEGIN { for (i = 1; i <= 10000; i++) printf "a-name-that-is-not-short-%05d\n", i }' >/tmp/names
xargs touch </tmp/names
ls | wc -l; ls | cmp - /tmp/names && echo "all of them"
ls -f | sort | tail -n +3 | cmp - /tmp/names && echo "each once"
[ -e a-name-that-is-not-short-07777 ] && [ ! -e a-name-that-is-not-short-10001 ] && echo found
awk 'NR % 2' /tmp/names | xargs rm && ls | wc -l
i=0; for name in $(head -n 400 /tmp/names | awk '!(NR % 2)'); do mv "$name" "renamed-$i"; i=$((i + 1)); done; ls | wc -l; ls | tail -n 3
cd .. && rm -r m && ls -A && rm /tmp/names
