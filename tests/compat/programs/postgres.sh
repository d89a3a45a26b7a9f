# PostgreSQL, single user and with its server.
. /compat/common.sh
p=$(ls -d /usr/lib/postgresql/*/bin)
grep -q ^postgres: /etc/passwd || { echo 'postgres:x:105:105::/tmp:/bin/sh' >>/etc/passwd; echo 'postgres:x:105:' >>/etc/group; }
chown 105:105 . "$HOME"
chmod 755 / .. 2>/dev/null
as() { setpriv --reuid 105 --regid 105 --clear-groups env HOME="$PWD" "$@"; }
check 'initdb' as "$p/initdb" -D data -A trust --no-sync --no-locale -E UTF8
single() { printf '%s\n' "$2" >in; check "$1" sh -c "setpriv --reuid 105 --regid 105 --clear-groups $p/postgres --single -D data postgres <in"; }
single 'single user' 'create table t(a int primary key, b text)'
single 'insert' "insert into t select n, 'row ' || n from generate_series(1, 2000) n"
single 'select' 'select count(*), sum(a), max(b) from t'
check 'start' sh -c "setpriv --reuid 105 --regid 105 --clear-groups $p/pg_ctl -D data -w -t 120 -l log -o '-k $PWD -c listen_addresses=127.0.0.1 -c fsync=off' start | tail -n 1"
q() { check "$1" as "$p/psql" -h 127.0.0.1 -U postgres -At -c "$2" postgres; }
q 'by TCP' 'select count(*) from t'
check 'by a local socket' as "$p/psql" -h "$PWD" -U postgres -At -c 'select version() like $$PostgreSQL%$$' postgres
q 'index' 'create index on t(b); explain (costs off) select * from t where a = 5'
q 'parallel' 'set max_parallel_workers_per_gather=2; set parallel_setup_cost=0; set parallel_tuple_cost=0; set min_parallel_table_scan_size=0; select sum(a) from t'
check 'pgbench' sh -c "setpriv --reuid 105 --regid 105 --clear-groups sh -c '$p/pgbench -q -i -h 127.0.0.1 -U postgres postgres && $p/pgbench -n -c 4 -t 20 -h 127.0.0.1 -U postgres postgres' 2>/dev/null | grep -E 'processed|failed'"
q 'locks' 'begin; lock table t; select count(*) from pg_locks where relation = $$t$$::regclass; commit'
check 'stop' sh -c "setpriv --reuid 105 --regid 105 --clear-groups $p/pg_ctl -D data -w -m fast stop | tail -n 1"
single 'after it' 'select count(*) from t'
