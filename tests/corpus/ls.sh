# ls: order, hidden, long format without times, sizes, classes.
mkdir d; touch b a .h; echo 12345 >s; ln -s a l; chmod 751 b; ls; ls -a; ls -A; ls -1r; ls -F; ls -d d; ls -l | awk 'NR > 1 { print $1, $5, $9, $10, $11 }' | grep -v '^d'; ls -S | head -n 1; ls nowhere 2>/dev/null; echo $?; ls -R; ls -p d . ; ls a b
