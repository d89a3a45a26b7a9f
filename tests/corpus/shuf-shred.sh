# shuf keeps all lines; shred -u removes.
seq 1 50 | shuf | sort -n | md5sum; seq 1 50 | md5sum; shuf -n 3 -i 1-100 | wc -l; echo secret >f; shred -n 1 f; wc -c <f; shred -u f; ls | wc -l
