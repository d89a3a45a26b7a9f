# gzip, gunzip, zcat, integrity, levels; output that depends on no time.
seq 1 20000 >f; cp f orig; gzip f; ls; zcat f.gz | cmp - orig && echo same; gunzip f.gz; cmp f orig && echo back; gzip -c f | gunzip -c | cmp - f && echo pipe; gzip -c -9 <f | wc -c; gzip -c -1 <f | zcat | md5sum; gzip -t orig 2>/dev/null; echo $?; echo garbage | gunzip 2>/dev/null; echo $?; gzip -k f; ls f*; rm f.gz
