# stress-ng --verify: a case is a stressor, a second each, as root and as user 1000. Argument: a kind of them.
. /compat/common.sh
chmod 777 .
case $1 in
process) stressors='clone daemon exec exit-group fork kcmp nice pidfd pthread session spawn switch vfork wait yield zombie' ;;
signal) stressors='kill sigabrt sigchld sigfd sigfpe sigio signal signest sigpending sigpipe sigq sigrt sigsegv sigsuspend sigtrap' ;;
ipc) stressors='eventfd fifo futex mq msg pipe pipeherd sem sem-sysv sendfile shm shm-sysv sock sockmany sockpair splice tee vm-splice' ;;
memory) stressors='brk full madvise malloc mincore mlock mmap mmapaddr mmapfork mmapmany mprotect mremap msync munmap remap resources stack vma' ;;
file) stressors='access chdir chmod chown copy-file dentry dir dup fallocate fcntl flock fpunch getdent hdd inotify link lockf locka lockofd open readahead rename seek symlink sync-file touch unlink utime verity xattr' ;;
timer) stressors='alarm clock hrtimers itimer nanosleep poll sleep timer timerfd' ;;
scheduler) stressors='affinity loadavg resched schedpolicy sched-prio sleep' ;;
esac
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
