# sqlite3: tables, journals of each kind, several processes at one database.
. /compat/common.sh
sql() { check "$1" sqlite3 -batch -bail db "$2"; }
sql 'create' 'create table t(a integer primary key, b text, c real); create index i on t(b);'
for mode in delete truncate persist memory wal off; do
    sql "journal $mode" "pragma journal_mode=$mode; begin; with recursive n(x) as (select 1 union all select x+1 from n where x<500) insert into t(b,c) select 'row '||x, x*0.5 from n; commit; select count(*), sum(c) from t;"
done
sql 'journal wal again' 'pragma journal_mode=wal;'
check 'files' sh -c 'ls db*'
sql 'index' "select count(*) from t where b='row 77'; explain query plan select * from t where b='x';"
sql 'transaction given up' 'begin; delete from t; rollback; select count(*) from t;'
sql 'triggers' 'create table log(x); create trigger r after delete on t begin insert into log values(old.b); end; delete from t where a<10; select count(*) from log;'
sql 'json' "select json_extract('{\"a\":[1,2,{\"b\":3}]}','\$.a[2].b'), json_group_array(a) from (select a from t limit 3);"
sql 'windows' 'select a, sum(c) over (order by a rows 2 preceding) from t limit 5;'
sql 'full text' "create virtual table f using fts5(x); insert into f select b from t; select count(*) from f where f match 'row AND 12';"
sql 'check' 'pragma integrity_check; vacuum; pragma integrity_check;'
sql 'attach' "attach 'other' as o; create table o.t as select * from t; select count(*) from o.t;"
sql 'backup' ".backup copy"
check 'the copy' sqlite3 copy 'select count(*), sum(a) from t'
check 'dump' sh -c 'sqlite3 db .dump | sqlite3 again; sqlite3 again "select count(*) from t"'
check 'import' sh -c 'seq 2000 | sed "s/.*/&,n&/" >csv; sqlite3 db "create table m(a,b)" ".mode csv" ".import csv m" "select count(*), max(b) from m"'
sql 'mapped' 'pragma mmap_size=10000000; select sum(length(b)) from t;'
check 'writers' sh -c 'sqlite3 w "create table t(a)"; for i in 1 2 3 4; do (for n in 1 2 3 4 5 6; do sqlite3 -cmd ".timeout 60000" w "insert into t values($i)"; done) & done; wait; sqlite3 w "select a, count(*) from t group by a"'
check 'writers in wal' sh -c 'sqlite3 v "pragma journal_mode=wal; create table t(a)"; for i in 1 2 3 4; do (for n in 1 2 3 4 5 6; do sqlite3 -cmd ".timeout 60000" v "insert into t values($i)"; done) & done; wait; sqlite3 v "select a, count(*) from t group by a; pragma wal_checkpoint"; ls v*'
check 'locked' sh -c '(echo "begin exclusive;"; sleep 2) | sqlite3 w & sleep 1; sqlite3 w "select count(*) from t"; wait'
check 'read only' sh -c 'chmod 444 copy; sqlite3 "file:copy?mode=ro" "insert into t(b) values(1)"'
check 'killed in a transaction' sh -c '(echo "pragma journal_mode=delete; begin; delete from t; select 1;"; sleep 5) | sqlite3 w & sleep 1; kill -9 $! 2>/dev/null; pkill -9 -x sqlite3; wait; sqlite3 w "select count(*) from t; pragma integrity_check"'
sql 'wrong' 'select * from nothing;'
