# What cp, mkdir and redirection make under different umasks, and over existing files.
umask 077; echo a >a; mkdir d; cp a b; umask 022; cp a c; chmod 751 c; cp c e; cp -p c f; echo new >g; chmod 600 g; cp c g; stat -c '%a %n' a b c d e f g; cat g
