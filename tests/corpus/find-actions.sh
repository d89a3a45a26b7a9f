# find with exec and logical operators.
mkdir d; for i in 1 2 3; do echo $i >d/f$i; done
find d -type f -exec cat {} \; | sort
find d -type f -exec echo {} + | tr ' ' '\n' | sort
find d -name f2 -exec rm {} \; ; ls d
find d \( -name f1 -o -name f3 \) -exec rm {} + ; ls d | wc -l
find nowhere 2>/dev/null; echo $?; find . -type d -print0 | tr '\0' '\n' | sort
