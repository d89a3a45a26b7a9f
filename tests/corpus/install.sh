# install: modes, folders.
echo prog >p; install -m 750 p q; stat -c %a q; install -d x/y/z; find x | sort; install p x/y; cat x/y/p; stat -c %a x/y/p; install -D p new/sub/p 2>/dev/null && find new | sort
