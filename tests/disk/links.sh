# Link counts of files and folders as they come and go.
mkdir a && stat -c %h a . && mkdir a/b a/c && stat -c %h a && mv a/c . && stat -c %h a . && rmdir a/b && stat -c %h a
echo x >f; i=0
while [ $i -lt 300 ]; do ln f "f$i"; i=$((i + 1)); done
stat -c '%h %s' f; rm f1*; stat -c %h f; rm f; stat -c %h f2; cat f299; rm f*; ls -A a c
exec 3>open && echo kept >&3 && rm open && echo more >&3 && wc -c </proc/self/fd/3; cat /proc/self/fd/3; exec 3>&-
i=0; exec 4>o4 5>o5 6>o6; rm o4 o5 o6
dd if=/dev/zero bs=1000 count=3000 >&4 2>/dev/null; stat -L -c '%h %s' /proc/self/fd/4; exec 4>&- 5>&- 6>&-
[ "$(df -Pk . | awk 'END { print $3 }')" -lt 20000 ] && echo "its blocks are free again"
