# sed: hold space, next, branches: reverse, join, double.
printf '1\n2\n3\n4\n' >f
sed -n '1!G;h;$p' f; sed 'N;s/\n/+/' f; sed G f; sed -n 'x;p' f; sed ':a;N;$!ba;s/\n/,/g' f; sed '/2/{n;d}' f; sed 's/./&&/;t;s/x/y/' f
sed -n '/3/{=;p}' f; sed '$!N;P;D' f; echo abc | sed 's/b/\n/'; echo aaa | sed 's/a/b/2'
