# Rename many files by pattern.
for i in 1 2 3 10; do echo $i >photo$i.JPG; done; for f in *.JPG; do n=${f#photo}; n=${n%.JPG}; mv $f $(printf 'img%03d.jpg' $n); done; ls; cat img010.jpg
