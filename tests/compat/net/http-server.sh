# python3's http.server, asked by curl and wget.
. /compat/servers.sh
mkdir -p www/a/b
for i in 1 2 3 4 5 6 7 8; do seq $((i * 1000)) >www/a/f$i; echo "<a href=f1>1</a>" >www/a/b/$i.html; done
random 2000000 >www/big
serve 8000 python3 -m http.server 8000 --bind 127.0.0.1 --directory www
serve 8006 python3 -m http.server 8006 --bind ::1 --directory www
at=http://127.0.0.1:8000
check 'a file' curl -s $at/big
check 'a list' curl -s $at/a/
check 'nothing there' curl -s -o /dev/null -w '%{http_code}\n' $at/none
check 'IPv6' curl -s -g 'http://[::1]:8006/a/f1'
check 'a post' curl -s -o /dev/null -w '%{http_code}\n' -d x=y $at/a/f1
check 'twenty' curl -s -Z -w '%{http_code}\n' -o /dev/null "$at/a/f1?[1-20]"
check 'wget' sh -c "wget -q -O - $at/a/f8 | cksum"
check 'wget of what is not there' wget -q $at/none
check 'wget to nobody' wget -q -t 1 http://127.0.0.1:8001/
check 'wget of everything' wget -q -r -np -nH -P got $at/a/
check 'what it got' sh -c 'cd got/a && find . -type f ! -name "index*" | sort | xargs cksum'
head -c 1000000 www/big >part
check 'wget goes on' sh -c "cp part big; wget -q -c $at/big; cksum <big"
check 'wget of many' sh -c "for i in 1 2 3 4 5; do echo $at/a/f\$i; done | wget -q -i - -O - | cksum"
check 'wget over IPv6' wget -q -O - 'http://[::1]:8006/a/f2'
check 'wget only if newer' sh -c "wget -q -N $at/a/f1 && wget -nv -N $at/a/f1 2>&1 | grep -c 304; wc -l <f1"
check 'wget waits for so long' wget -q -T 2 -t 1 -O - http://127.0.0.1:8001/
kill "$server"
