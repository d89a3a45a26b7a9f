# Tilde, order of expansions.
echo ~; HOME=/other; echo ~/x; echo '~' "~"; a=~/y; echo $a; touch z1 z2; b='z*'; echo $b "$b"; set -- z*; echo $#; c="a b"; d=$c; echo "$d"
