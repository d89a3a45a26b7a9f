# readlink -f and realpath through links, dots and doubled slashes.
top=$(pwd -P); mkdir -p a/b; touch a/b/f; ln -s a/b l; ln -s l/f m
for p in l m l/../x . .. a//b/./f; do realpath $p 2>/dev/null | sed "s|$top|TOP|"; done; readlink -f m | sed "s|$top|TOP|"; readlink l; readlink a; echo $?; readlink -f nowhere/x; echo $?; basename /a/b/c.txt .txt; dirname /a/b/c; basename a/; dirname a; dirname /
