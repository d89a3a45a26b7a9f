# For the scripts here: killing a file server, whose name is $1, at its $2-th entry of the nucleus from now on.
server() { dmesg | sed -n "s/.*\`$1\` is domain //p" | tail -n 1; }
killed() {
    d=$(server "$1"); echo "kill $2 $((d & 0xfffff))" >/trace/control
    for i in $(seq 200); do ls -l / /mnt >/dev/null || echo "WRONG ls: $?"; [ "$(server "$1")" = "$d" ] || return 0; done
    echo "$1 was not started again"; exit 1
}
