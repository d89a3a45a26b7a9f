# stress-ng --verify: a case is a stressor, a second each, as root and as user 1000. Argument: its class.
. /compat/common.sh
chmod 777 .
stressors=$(stress-ng --class "$1?" 2>/dev/null | sed -n "s/^class .* stressors: //p")
for user in 0 1000; do
    for name in $stressors; do
        case $name in
        # What ends the machine, needs a device, or is not the system's.
        watchdog | rdrand | tsc | x86* | smi | oom-pipe | sysinval | enosys | fork-bomb | bad-altstack-no) continue ;;
        esac
        mkdir -p "$user"; chown "$user" "$user"
        said=$(setpriv --reuid "$user" --regid "$user" --clear-groups timeout -k 5 40 stress-ng --"$name" 1 --"$name"-ops 20 --timeout 2 --verify --temp-path "$user" 2>&1)
        status=$?
        why=$(echo "$said" | sed -n 's/^stress-ng: \(fail\|error\|warn\): *\[[0-9]*\] *//p' | sed 's/[0-9][0-9]*/N/g' | sort -u | head -n 3 | tr '\n' ' ')
        skipped=$(echo "$said" | grep -c -i 'skipp')
        echo "$user $name: status $status, skipped $((skipped > 0)), $why"
        { echo "== $user $name"; echo "$said"; } >&2
    done
done
