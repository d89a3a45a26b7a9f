# uuencode and uudecode.
seq 1 50 >f; uuencode f out <f >u 2>/dev/null || uuencode out <f >u; head -n 2 u | tail -n 1; uudecode -o g u; cmp f g && echo same; uuencode -m x <f | uudecode -o h; cmp f h && echo base64
