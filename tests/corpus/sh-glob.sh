# Pathname expansion: classes, ranges, hidden files, folders, order.
touch a1 a2 b1 B1 .hidden 'with space' '[x]'; mkdir -p dir/sub; touch dir/f dir/sub/g
echo *; echo a?; echo [ab]1; echo [!a]*; echo .h*; echo */; echo */*; echo dir/*/g
echo "*"; echo no*match; echo \[x\]; for f in with*; do echo "<$f>"; done
