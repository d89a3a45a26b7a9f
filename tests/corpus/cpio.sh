# cpio: create, list, extract.
mkdir -p d/e; echo 1 >d/a; echo 2 >d/e/b; ln -s a d/l
find d | sort | cpio -o -H newc 2>/dev/null >c; cpio -t <c 2>/dev/null; mkdir x; cd x; cpio -id <../c 2>/dev/null; cd ..; diff -r d x/d && echo same; readlink x/d/l; rm c
