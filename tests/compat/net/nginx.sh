# nginx, asked by curl.
. /compat/servers.sh
mkdir -p www/sub www/put logs tmp
chmod 777 . www www/put tmp "$HOME" "$HOME/.."
echo hello >www/index.html
random 3000000 >www/big
seq 100000 >www/numbers.txt
cat >nginx.conf <<C
user root;
worker_processes 2;
pid $PWD/pid;
error_log $PWD/logs/error info;
events { worker_connections 256; }
http {
    access_log $PWD/logs/access;
    client_body_temp_path $PWD/tmp/body;
    proxy_temp_path $PWD/tmp/proxy;
    fastcgi_temp_path $PWD/tmp/fastcgi;
    uwsgi_temp_path $PWD/tmp/uwsgi;
    scgi_temp_path $PWD/tmp/scgi;
    sendfile on;
    tcp_nopush on;
    aio threads;
    gzip on;
    gzip_types text/plain;
    client_max_body_size 20m;
    types { text/html html; text/plain txt; }
    upstream self { server 127.0.0.1:8080; keepalive 4; }
    server {
        listen 8080 backlog=64;
        listen [::]:8080;
        listen unix:$PWD/socket;
        listen 127.0.0.1:8443 ssl http2;
        ssl_certificate $PWD/cert; ssl_certificate_key $PWD/key;
        root $PWD/www;
        location /list/ { alias $PWD/www/; autoindex on; }
        location /put/ { dav_methods PUT DELETE MKCOL MOVE; create_full_put_path on; }
        location /status { stub_status; }
        location /who { return 200 "\$remote_addr \$server_addr \$server_port \$request_method\n"; }
        location /limited { limit_rate 200k; alias $PWD/www/numbers.txt; }
        location /empty { return 204; }
        location /moved { return 301 /index.html; }
    }
    server { listen 8081 so_keepalive=30:5:3 reuseport; location / { proxy_pass http://self; proxy_http_version 1.1; proxy_set_header Connection ""; } }
    server { listen 8082 deferred; location / { proxy_pass http://127.0.0.1:9; } }
    server { listen 8083; location / { proxy_pass http://unix:$PWD/socket:/; } }
}
C
openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -subj /CN=localhost -days 9999 >&2 2>&1
check 'the configuration' nginx -t -q -p "$PWD" -c "$PWD/nginx.conf"
serve 8080 nginx -p "$PWD" -c "$PWD/nginx.conf" -g 'daemon off;'
listens 8443; listens 8081
at=http://127.0.0.1:8080
get() { local case=$1; shift; check "$case" curl -s --max-time 60 "$@"; }
get 'a page' $at/
get 'its headers' -o /dev/null -w '%{http_code} %{content_type} %{size_download} %{http_version}\n' $at/index.html
get 'head' -o /dev/null -I -w '%{http_code}\n' $at/big
get 'what is not there' -o /dev/null -w '%{http_code}\n' $at/none
get 'a big file' $at/big
get 'a range' -r 1000000-1000999 $at/big
get 'several ranges' -o /dev/null -r 0-9,100-109 -w '%{http_code} \n' $at/big
get 'compressed' --compressed $at/numbers.txt
get 'no compression' $at/numbers.txt
get 'limited' $at/limited
get 'moved' -L -w '%{num_redirects} %{url_effective}\n' $at/moved
get 'empty' -w '%{http_code}\n' $at/empty
get 'one connection for all' -w '%{num_connects} %{http_code}\n' -o /dev/null $at/big -o /dev/null $at/ -o /dev/null $at/none -o /dev/null $at/big
get 'HTTP/1.0' -0 $at/
get 'IPv6' -g 'http://[::1]:8080/who'
get 'who' $at/who
get 'by a name' http://localhost:8080/
get 'a local socket' --unix-socket socket http://x/index.html
get 'TLS' -k https://127.0.0.1:8443/numbers.txt
get 'HTTP/2' -k --http2 -o /dev/null -w '%{http_version} %{http_code} %{num_connects}\n' https://127.0.0.1:8443/big
get 'many at once' -Z --parallel-max 20 -w '%{http_code}\n' -o '/dev/null' "$at/index.html?[1-60]"
get 'put' -T www/big -o /dev/null -w '%{http_code}\n' $at/put/a/b
check 'what was put' cmp www/big www/put/a/b
get 'put of what has no length' -T - -o /dev/null -w '%{http_code}\n' $at/put/c
get 'expect' -H 'Expect: 100-continue' -T www/numbers.txt -o /dev/null -w '%{http_code}\n' $at/put/d
get 'delete' -X DELETE -o /dev/null -w '%{http_code}\n' $at/put/a/b
get 'too much' -T <(head -c 21000000 /dev/zero) -H 'Content-Length: 21000000' -o /dev/null -w '%{http_code}\n' $at/put/e
get 'a form' -F a=b -F f=@www/index.html -o /dev/null -w '%{http_code}\n' $at/index.html
get 'a list' -o /dev/null -w '%{http_code}\n' $at/list/
get 'proxy' http://127.0.0.1:8081/big
get 'proxy, many' -Z -w '%{http_code}\n' -o /dev/null 'http://127.0.0.1:8081/index.html?[1-40]'
get 'proxy to nobody' -o /dev/null -w '%{http_code}\n' http://127.0.0.1:8082/
get 'proxy to a local socket' http://127.0.0.1:8083/numbers.txt
get 'nobody listens' http://127.0.0.1:8099/
get 'out of time' --max-time 1 --limit-rate 1k -o /dev/null -w '%{http_code}\n' $at/big
check 'its connections' sh -c "curl -s $at/status | sed -n 's/^Active connections: //p'"
kill -HUP "$server"; sleep 1
get 'after a reload' $at/
check 'requests' sh -c 'wc -l <logs/access'
kill -USR1 "$server"; sleep 0.5
cp "$(which nginx)" /dev/null
kill -QUIT "$server"; wait "$server"; echo "its end: $?"
tail -5 logs/error >&2
