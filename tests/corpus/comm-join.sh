# comm on sorted files.
printf 'a\nb\nc\n' >x; printf 'b\nc\nd\n' >y; comm x y; comm -12 x y; comm -3 x y; comm -23 x y
