# A folder under a second name: what is made, changed and removed by one is so by the other.
mkdir -p first/deep second
echo below >second/covered
here=$(pwd)
mount --bind $here/first $here/second || exit 1
touch second/x
echo hello >$here/second/y
mkdir $here/second/folder
echo deep >$here/second/deep/z
ls first $here/second first/deep
cat first/y second/y $here/second/deep/z
mv $here/second/x $here/second/folder/moved
ln $here/second/y $here/second/linked
ln -s y $here/second/symbolic
cat second/symbolic first/linked
stat -c '%h %s' $here/second/linked
(cd second && ls && echo more >>y && rm symbolic)
cat first/y
ls -A first first/folder $here//second/./folder
rm $here/second/linked
rmdir $here/second/deep 2>/dev/null || echo not empty
umount $here/second
echo umounted $?
ls second
cat second/covered
umount $here/second 2>/dev/null || echo not mounted
ls first
