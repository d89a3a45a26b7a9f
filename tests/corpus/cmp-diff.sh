# cmp and diff.
printf 'a\nb\nc\n' >x; printf 'a\nB\nc\nd\n' >y; cp x z
cmp x z; echo $?; cmp x y; echo $?; cmp -s x y; echo $?; cmp -l x y; diff x z; echo $?; diff -U 1 -L x -L y x y; echo $?; diff -q x y
mkdir d1 d2; cp x d1/f; cp y d2/f; touch d1/only; diff -rq d1 d2 | sort; diff -b x x; diff -i x y >/dev/null; echo $?
