# od of words and longs shows byte order.
printf '\1\2\3\4\5\6\7\10' >f; od -An -tx2 f; od -An -tx4 f; od -An -td1 f; od -An -tx8 f 2>/dev/null; hexdump f; od -An -j 2 -N 3 -tx1 f
