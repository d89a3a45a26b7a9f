# What /proc/PID/fd shows of files on a disk that have no name any more.
mkdir a
exec 3>a/file 4>a/other
readlink /proc/self/fd/3
rm a/file
readlink /proc/self/fd/3
echo x >a/new; mv a/new a/other
readlink /proc/self/fd/4
mkdir a/b; cd a/b; rmdir ../b
readlink /proc/self/cwd
cd ../.. 2>/dev/null || cd "$OLDPWD/.."
exec 3>&- 4>&-
