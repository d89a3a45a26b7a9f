# getopts.
parse() { OPTIND=1; while getopts ab:c o; do case $o in a|c) echo flag $o;; b) echo b=$OPTARG;; ?) echo bad;; esac; done; shift $((OPTIND - 1)); echo rest "$@"; }
parse -a -b value -c one two
parse -abx three 2>/dev/null
parse -z 2>/dev/null
parse -- -a
