# The reader ends early: writers die of SIGPIPE quietly.
yes | head -n 3
seq 1 1000000 | head -n 2
cat /dev/zero | head -c 5 | wc -c
(yes; echo "status $?" >status) 2>/dev/null | head -n 1; until [ -s status ]; do usleep 10000; done; cat status
