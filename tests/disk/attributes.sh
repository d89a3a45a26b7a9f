# Modes, owners, times, extended attributes, and what changes them by itself.
# cairn-test: root=debian
umask 022; touch f && chmod 6755 f && stat -c '%a %u %g' f && chown 1000:1000 f && stat -c '%a %u %g' f
chmod 4755 f && printf x >>f && stat -c %a f; chown 70000:80000 f && stat -c '%u %g' f
touch -d '2001-02-03 04:05:06.789012345' f && stat -c '%y' f; touch -d '1901-12-14' f && stat -c %y f; touch -d '2400-01-01 00:00:00.5' f && stat -c %y f
touch -a -d '2020-01-01' f && stat -c '%x' f && touch -m -r f g && stat -c %y g
mkdir -m 2775 group && chgrp 1000 group && touch group/file && mkdir group/sub && stat -c '%a %g' group/file group/sub
mkdir -m 1777 sticky && touch sticky/roots && setpriv --reuid 1000 --regid 1000 --clear-groups rm -f sticky/roots 2>/dev/null; ls sticky
setpriv --reuid 1000 --regid 1000 --clear-groups sh -c 'touch sticky/own && rm sticky/own && touch nobody 2>/dev/null || echo refused'
mkfifo fifo && mknod null c 1 3 && mknod disk b 254 0 && stat -c '%F %t %T' fifo null disk && echo gone >null && (echo through >fifo & cat fifo)
python3 - <<'END'
import os
x = 'a'
open(x, 'w').close()
os.setxattr(x, 'user.one', b'1'); os.setxattr(x, 'user.long', b'v' * 3000); os.setxattr(x, 'trusted.t', b'\0\1')
print(sorted(os.listxattr(x)), os.getxattr(x, 'user.one'), len(os.getxattr(x, 'user.long')))
def refused(what, *arguments):
    try:
        print(what.__name__, what(*arguments))
    except OSError as error:
        print(what.__name__, error.strerror)
refused(os.setxattr, x, 'user.one', b'2', os.XATTR_CREATE)
refused(os.setxattr, x, 'user.two', b'2', os.XATTR_REPLACE)
os.setxattr(x, 'user.one', b'two', os.XATTR_REPLACE); print(os.getxattr(x, 'user.one'))
refused(os.getxattr, x, 'user.none'); refused(os.setxattr, x, 'nonsense', b''); refused(os.setxattr, x, 'user.', b'')
refused(os.setxattr, x, 'user.huge', b'h' * 65537)
os.removexattr(x, 'user.long'); print(sorted(os.listxattr(x))); refused(os.removexattr, x, 'user.long')
os.mkdir('d'); os.setxattr('d', 'user.of', b'folder'); print(os.listxattr('d'))
os.symlink('a', 'l'); print(sorted(os.listxattr('l')))
for i in range(40):
    os.setxattr(x, 'user.n%02d' % i, b'%d' % i)
print(len(os.listxattr(x)), os.getxattr(x, 'user.n39'))
end = 0
try:
    for i in range(40, 400):
        os.setxattr(x, 'user.n%03d' % i, b'%d' % i)
except OSError as error:
    print(error.strerror)
before = os.stat(x).st_ctime_ns; os.setxattr(x, 'user.one', b'3'); print(os.stat(x).st_ctime_ns > before)
END
mv a b && python3 -c 'import os; print(os.getxattr("b", "user.one"))' && rm b
