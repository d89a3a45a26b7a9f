# A small make in shell: newer-than decides what is built.
touch -t 202001010000 a.src; touch -t 202001010000 b.src
build() { for s in *.src; do t=${s%.src}.out; if [ ! -e $t ] || [ $s -nt $t ]; then echo "building $t"; cp $s $t; touch -t ${1}0000 $t; fi; done; }
build 20200201; build 20200202; touch -t 202003010000 b.src; build 20200401; build 20200501
