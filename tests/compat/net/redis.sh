# redis-server, with its own clients.
. /compat/servers.sh
random 300000 >big
serve 6379 redis-server --port 6379 --bind 127.0.0.1 ::1 --unixsocket "$PWD/sock" --dir "$PWD" --appendonly yes --save '' --io-threads 2 --latency-tracking no
r() { local case=$1; shift; check "$case" timeout 30 redis-cli "$@"; }
r 'ping' ping
r 'set' set a 1
r 'get' get a
r 'over IPv6' -h ::1 get a
r 'a local socket' -s sock get a
r 'a big value' -x set big <big
check 'a big value, from a file' sh -c 'redis-cli -x set big <big; redis-cli strlen big; redis-cli --raw get big | head -c 300000 | cksum'
r 'a list' rpush l 1 2 3 4 5
r 'its range' lrange l 0 -1
r 'a script' eval 'local s = 0; for i = 1, 1000 do s = s + i end; return s' 0
check 'a transaction' sh -c 'printf "multi\nincr n\nincr n\nexec\n" | redis-cli'
check 'piped' sh -c 'seq 20000 | sed "s/.*/set k& v&/" | redis-cli --pipe 2>&1 | tail -1; redis-cli dbsize'
check 'scan' sh -c 'redis-cli --scan | wc -l'
check 'publish' sh -c 'timeout 20 redis-cli subscribe c >s & for i in $(seq 100); do [ "$(redis-cli publish c x)" = 1 ] && break; sleep 0.05; done; sleep 0.2; kill $!; tail -1 s'
check 'blocking' sh -c 'redis-cli blpop waits 10 >b & sleep 0.3; redis-cli rpush waits x; wait; cat b'
check 'out of time' sh -c 'redis-cli blpop nothing 1'
check 'an expiry' sh -c 'redis-cli set e 1 px 200 >/dev/null; sleep 0.5; redis-cli exists e'
for t in ping_inline set get lpush lrange_100 mset; do
    check "benchmark $t" sh -c "redis-benchmark -q -n 2000 -c 20 -t $t | tr '\r' '\n' | grep -c 'requests per second'"
done
check 'benchmark, pipelined' sh -c "redis-benchmark -q -n 20000 -c 10 -P 16 -t set,get | tr '\r' '\n' | grep -c 'requests per second'"
check 'benchmark over a local socket' sh -c "redis-benchmark -s $PWD/sock -q -n 2000 -t get | tr '\r' '\n' | grep -c 'requests per second'"
check 'benchmark, threads' sh -c "redis-benchmark --threads 2 -q -n 4000 -t get 2>/dev/null | tr '\r' '\n' | grep -c 'requests per second'"
first=$server
serve 6380 redis-server --port 6380 --bind 127.0.0.1 --dir "$PWD" --dbfilename r.rdb --replicaof 127.0.0.1 6379 --save ''
check 'a replica' sh -c 'for i in $(seq 200); do [ "$(redis-cli -p 6380 get a)" = 1 ] && break; sleep 0.1; done; redis-cli -p 6380 get a; redis-cli -p 6380 info replication | tr -d "\r" | grep link_status'
check 'it follows' sh -c 'redis-cli set later 7 >/dev/null; redis-cli wait 1 5000; redis-cli -p 6380 get later'
r 'it is read only' -p 6380 set x 1
check 'save' sh -c 'redis-cli bgsave; for i in $(seq 100); do redis-cli info persistence | grep -q rdb_bgsave_in_progress:0 && break; sleep 0.1; done; redis-cli info persistence | tr -d "\r" | grep last_bgsave_status; redis-check-rdb dump.rdb | tail -1 | cut -c1-40 >&2'
check 'rewritten' sh -c 'redis-cli bgrewriteaof; sleep 2; redis-cli info persistence | tr -d "\r" | grep last_bgrewrite_status'
check 'its clients' sh -c 'redis-cli client list | grep -c "addr=127.0.0.1:"'
redis-cli shutdown; wait "$first"; echo "its end: $?"
serve 6379 redis-server --port 6379 --bind 127.0.0.1 --dir "$PWD" --appendonly yes --save ''
sleep 0.5
r 'what was kept' dbsize
r 'nobody' -p 6399 ping
