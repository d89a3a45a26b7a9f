# free, uptime, vmstat-less: they run and print the right number of fields. cairn-test: cores=1
free | awk '/^Mem/ { print NF, ($2 > 0) }'; free -m >/dev/null; echo $?; uptime | grep -c 'load average'; nproc; cat /proc/version | wc -l; cat /proc/filesystems >/dev/null; echo $?
