# chown, chgrp, names and numbers, links.
touch f; chown nobody f; stat -c '%u %U' f; chown 1000:100 f; stat -c '%u:%g %U:%G' f; chgrp tty f; stat -c %G f; chown :0 f; stat -c %g f; ln -s f l; chown -h 5 l; stat -c %u f l; mkdir d; touch d/x; chown -R 7:8 d; stat -c '%u:%g %n' d d/x; chown root:root f; chown nosuch f 2>/dev/null; echo $?
