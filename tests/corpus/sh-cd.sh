# cd, pwd, symlinked folders, CDPATH-less, OLDPWD.
top=$(pwd); mkdir -p a/b/c; ln -s a/b link
cd a/b/c; echo ${PWD#$top}; cd ../..; echo ${PWD#$top}; cd - | sed "s|$top||"; cd "$top"
cd link; echo ${PWD#$top}; pwd -P | sed "s|$top||"; cd ..; echo "[${PWD#$top}]"
cd nowhere 2>/dev/null || echo no; cd /; pwd; cd //; cd /tmp/../tmp/.; pwd
