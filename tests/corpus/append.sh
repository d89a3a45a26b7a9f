# Appending from several writers, O_APPEND semantics, position after growth.
echo start >f; (for i in 1 2 3; do echo a$i >>f; done) & (for i in 1 2 3; do echo b$i >>f; done) & wait; sort f; exec 3>>f; echo one >&3; echo two >>f; echo three >&3; tail -n 3 f; exec 3>&-; wc -l <f; rm f
