# All inodes in use: no more files, but more names and more data; and all of them again afterwards.
# cairn-test: disk=16M,-N,256
free=$(df -Pi . | awk 'END { print $4 }'); echo "$free"
i=0; while true >"f$i"; do i=$((i + 1)); [ $i -gt 1000 ] && break; done 2>/dev/null; echo "$i files"
(true >more) 2>/dev/null || echo "no more files"; mkdir d 2>/dev/null || echo "no more folders"; ln -s x y 2>/dev/null || echo "no more links"
df -Pi . | awk 'END { print $4 }'
ln f0 hard && echo text >f1 && cat f1 && mv f2 renamed && ls | wc -l
rm f3 && mkdir d && echo "one again"; rm -r ./*; df -Pi . | awk 'END { print $4 }'
