# tar with every compression, ownership and links; file, diff, patch, cmp.
mkdir -p tree/a/b tree/c
echo 1 >tree/a/1
seq 1 20000 >tree/a/b/2
ln -s ../a/1 tree/c/l
ln tree/a/1 tree/c/h
mkfifo tree/c/p
chmod 4750 tree/a/b/2
for way in '' z J j; do
    tar "c${way}f" "t$way" --sort=name --mtime=@0 tree && mkdir "x$way" && tar "x${way}f" "t$way" -C "x$way" && diff -r --no-dereference tree "x$way/tree" 2>&1 | grep -v fifo
done
tar tvf tz --full-time --utc
stat -c '%n %a %h %F' xJ/tree/a/1 xJ/tree/a/b/2 xJ/tree/c/*
file t tz tJ tj tree/a/1 tree/c/p /usr/bin/bash | sed 's/, BuildID.*//'
cd tree/a/b
gzip -k9 2 && gzip -dc 2.gz | cmp - 2
xz -k -T2 2 && xz -dc 2.xz | cmp - 2
bzip2 -k 2 && bzip2 -dc 2.bz2 | cmp - 2
sed 's/^7$/seven/; 100d' 2 >3
diff -u --label a --label b 2 3 >d
cat d
cp 2 4 && patch -s 4 d && cmp 3 4 && patch -s -R 4 d && cmp 2 4 && echo patched
cd ../../..
rm -rf t? t x* tree/a/b/*.*
