# flock: exclusive, shared, not waiting.
exec 9>lock; flock -n 9 && echo locked; (exec 8>lock; flock -n 8 || echo busy); flock -u 9; (exec 8>lock; flock -n 8 && echo free); flock lock sh -c 'echo in lock'; (flock -s 9; sh -c 'exec 8>lock; flock -n -s 8 && echo shared too'); exec 9>&-
