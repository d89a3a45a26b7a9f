# mktemp: files and folders with the right modes.
f=$(mktemp ./fXXXXXX); stat -c '%a %s' $f; d=$(mktemp -d ./dXXXXXX); stat -c '%a %F' $d; [ "$f" != "$(mktemp -u ./fXXXXXX)" ] && echo different; rm -r $f $d; mktemp -d /nowhere/XXXXXX 2>/dev/null; echo $?; ls
