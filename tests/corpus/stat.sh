# stat: sizes, types, links, modes.
echo hello >f; mkdir d; ln -s f l; mkfifo p; stat -c '%s %a %F %h %n' f l p; stat -c '%a %F %n' d; stat -L -c '%s %F' l; stat -c %F /dev/null /dev/zero; stat nowhere 2>/dev/null; echo $?; stat -c '%t %T' /dev/null; head -c 10000 /dev/zero >z; stat -c '%s %B' z
