# su: identity, environment, status.
chmod 755 .; for up in / /work; do chmod 755 $up; done; su user -s /bin/sh -c 'id -u; id -g; echo $USER'; su nobody -s /bin/sh -c 'id -un; exit 5'; echo $?; su nosuch -c true 2>/dev/null; echo $?; setpriv --reuid 1000 sh -c 'id -u' 2>/dev/null; echo $?
