# getopt: long and short options.
set -- $(getopt ab: -a -b x y); echo "$@"; getopt -o ab: -l long,arg: -- -a --arg=v rest; getopt -o a -- -z 2>/dev/null; echo $?
