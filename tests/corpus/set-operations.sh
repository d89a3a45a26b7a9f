# Union, intersection and difference of sorted files with sort, uniq and grep.
printf 'a\nb\nc\n' >x; printf 'b\nc\nd\n' >y; sort x y | uniq; echo; sort x y | uniq -d; echo; grep -vxFf y x; echo; grep -xFf x y; sort x x y | uniq -u
