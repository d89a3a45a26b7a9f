# Rotate backups: test, mv, cp, tar, cmp.
mkdir data; echo v1 >data/f
backup() { [ -e b.2.tar ] && rm b.2.tar; [ -e b.1.tar ] && mv b.1.tar b.2.tar; [ -e b.0.tar ] && mv b.0.tar b.1.tar; tar cf b.0.tar data; }
backup; echo v2 >data/f; backup; echo v3 >data/f; backup; echo v4 >data/f; backup; for n in 0 1 2; do tar xOf b.$n.tar data/f; done; ls; rm *.tar
