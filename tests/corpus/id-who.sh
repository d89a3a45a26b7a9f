# id, whoami, groups, hostname, uname, logname-less.
id; id -u; id -un; whoami; id nobody; id -G; uname -s; uname -m; hostname >/dev/null; echo $?; id nosuch 2>/dev/null; echo $?
