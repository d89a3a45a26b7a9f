# umask and the modes of what is made.
for m in 022 077 000 027; do umask $m; : >f$m; mkdir d$m; done
umask 022; stat -c '%a %n' f* d*
umask; umask -S
