# Pattern removal with classes and quotes.
f=aaabbb; echo ${f#a} ${f##a*a} ${f%b} ${f%%b*} ${f#*[b]}; p='*'; s='*x*'; echo "${s#"$p"}" "${s#$p}"; v=/a/b/c; echo ${v%/*} ${v%/*/*}; e=; echo "[${e#x}]"; for f in a.tar.gz b.txt c; do echo ${f%%.*}:${f#*.}; done
