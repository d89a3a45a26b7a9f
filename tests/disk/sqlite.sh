# SQLite: 100,000 rows in transactions, both kinds of journal, writers at the same time, integrity.
# cairn-test: root=debian limit=1200 disk=128M,-b,4096
awk 'BEGIN { for (t = 0; t < 100; t++) { print "begin;"; for (i = 0; i < 1000; i++) printf "insert into t(b) values(hex(%d));\n", (t * 1000 + i) * 7919; print "commit;" } }' >in.sql
sqlite3 t.db 'create table t(a integer primary key, b text);' && sqlite3 t.db <in.sql && sqlite3 t.db 'select count(*), sum(length(b)), max(b) from t; pragma integrity_check;'
sqlite3 t.db 'create index i on t(b); delete from t where a % 3 = 0; vacuum; select count(*), sum(a) from t; pragma integrity_check;'
for n in 1 2 3 4; do sqlite3 t.db ".timeout 60000" "begin immediate; insert into t(b) values('writer'); commit;" & done; wait
sqlite3 t.db "select count(*) from t where b = 'writer'"
sqlite3 w.db 'pragma journal_mode=wal; create table t(a);' && sed 's/t(b)/t/' in.sql | head -n 20040 | sqlite3 w.db && sqlite3 w.db 'select count(*) from t; pragma wal_checkpoint(truncate); pragma integrity_check;'
rm -f in.sql; ls
