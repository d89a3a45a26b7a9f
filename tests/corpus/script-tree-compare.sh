# Two trees are compared by checksums.
mkdir -p x/1 x/2; echo a >x/1/a; echo b >x/2/b; cp -r x y; echo changed >y/2/b; echo new >y/new
sums() { (cd $1; find . -type f | sort | xargs md5sum); }; sums x >sx; sums y >sy; diff -U 0 -L x -L y sx sy | sed -n '4,$p'; grep -vxFf sx sy | cut -c35-
