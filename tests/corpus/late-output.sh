# Output that comes late: unbuffered order, awk with fflush.
(echo a; sleep 0.1; echo b) | sed 's/^/> /'; (echo 1; echo 2) | awk '{ print; fflush() }'; (for i in 1 2 3; do echo $i; usleep 1000; done) | while read x; do echo "saw $x"; done
