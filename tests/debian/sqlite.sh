# SQLite: transactions, both journals, locks between processes, integrity.
# cairn-test: limit=300
sqlite3 t.db 'create table t(a integer primary key, b text);
begin; with recursive c(x) as (select 1 union all select x + 1 from c where x < 20000) insert into t select x, hex(x * 7) from c; commit;
select count(*), sum(length(b)) from t; pragma integrity_check;
create index i on t(b); select a from t where b = "3730"; delete from t where a % 3 = 0; vacuum; select count(*), sum(a) from t; pragma integrity_check;'
for n in 1 2 3 4; do
    sqlite3 t.db ".timeout 20000" "begin immediate; insert into t(b) values('writer'); commit;" &
done
wait
sqlite3 t.db "select count(*) from t where b = 'writer'"
sqlite3 w.db 'pragma journal_mode=wal; create table t(a); insert into t values(1),(2),(3); select sum(a) from t; pragma wal_checkpoint(truncate);' '.mode csv' 'select a, a * a from t;'
sqlite3 t.db 'begin; delete from t; rollback; select count(*) > 0 from t;' .schema '.dump' | sed 5q
printf 'a,b\n1,2\n3,4\n' >in.csv
sqlite3 :memory: '.import --csv in.csv c' 'select sum(b) from c;'
rm -f t.db-journal
ls
