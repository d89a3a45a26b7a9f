# valgrind over small programs.
. /compat/common.sh
check 'true' valgrind -q --error-exitcode=9 /bin/true
check 'tools' sh -c 'for t in none lackey cachegrind massif helgrind; do valgrind -q --tool=$t /bin/true >/dev/null 2>&1; echo $t $?; done'
check 'a shell' valgrind -q --trace-children=yes sh -c 'echo hello; (exit 3); echo $?'
check 'signals' valgrind -q sh -c 'trap "echo t" USR1; kill -USR1 $$; echo end'
check 'a pipe' sh -c 'valgrind -q seq 100 | valgrind -q sort -rn | cksum'
check 'summary' sh -c 'valgrind /bin/echo x 2>&1 >/dev/null | sed "s/^==[0-9]*== //" | grep -E "ERROR SUMMARY|All heap"'
