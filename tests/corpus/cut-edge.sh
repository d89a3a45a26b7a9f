# cut at edges: missing fields, only delimited, complements, bytes.
printf 'a:b\nnone\n:x\n' >f; cut -d: -f2 f; cut -d: -s -f1 f; cut -b1-2 f; cut -c2- f; printf 'a:b:c:d\n' | cut -d: -f2-3; printf 'abc\n' | cut -c5
