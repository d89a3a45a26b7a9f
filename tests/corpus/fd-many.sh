# Many descriptors in one shell, closed in any order.
for i in 3 4 5 6 7 8 9; do eval "exec $i>f$i"; done; for i in 9 3 5; do echo "to $i" >&$i; done; exec 5>&-; echo x 2>/dev/null >&5 || echo closed; for i in 3 4 6 7 8 9; do eval "exec $i>&-"; done; cat f3 f5 f9; ls
