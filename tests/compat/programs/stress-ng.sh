# stress-ng --verify: a case is a stressor, a second each, as root and as user 1000. Argument: a kind of them.
. /compat/common.sh
chmod 777 .
# Where shm_open keeps its files: the Linux here does not mount it.
[ -d /dev/shm ] || { mkdir /dev/shm && mount -t tmpfs -o mode=1777 tmpfs /dev/shm; }
case $1 in
process) stressors='clone daemon exec exit-group fork kcmp nice pidfd pthread session spawn switch vfork wait yield zombie' ;;
signal) stressors='kill sigabrt sigchld sigfd sigfpe sigio signal signest sigpending sigpipe sigq sigrt sigsegv sigsuspend sigtrap' ;;
ipc) stressors='eventfd fifo futex mq msg pipe pipeherd sem sem-sysv sendfile shm shm-sysv sock sockmany sockpair splice tee vm-splice' ;;
memory) stressors='brk full madvise malloc mincore mlock mmap mmapaddr mmapfork mmapmany mprotect mremap msync munmap remap resources stack vma' ;;
file) stressors='access chdir chmod chown copy-file dentry dir dup fallocate fcntl flock fpunch getdent hdd inotify link lockf locka lockofd open readahead rename seek symlink sync-file touch unlink utime verity xattr' ;;
timer) stressors='alarm clock hrtimers itimer nanosleep poll sleep timer timerfd' ;;
scheduler) stressors='affinity loadavg resched schedpolicy sched-prio sleep' ;;
network) stressors='dccp epoll icmp-flood netdev netlink-proc netlink-task ping-sock rawpkt rawsock rawudp sctp sockabuse sockdiag sockfd udp udp-flood' ;;
kernel) stressors='bad-altstack bad-ioctl branch cap chroot close context dev-shm dnotify dynlib env fault fp-error get getrandom handle iomix ioprio key klog landlock lease longjmp membarrier mknod null opcode personality pkey prctl priv-instr procfs ptrace pty quota race-sched rlimit rseq rtc seal seccomp secretmem set sigq sysinfo sysfs unshare urandom userfaultfd usersyscall vdso vforkmany zero' ;;
space) stressors='bigheap memfd memthrash misaligned mlockmany mmapfixed mmaphuge msyncmany pagemove peterson physpage ramfs randlist remap revio rmap shm stackmmap sysbadaddr tlb-shootdown tmpfs umount vm vm-addr vm-rw vm-segv' ;;
tree) stressors='aio aiol bind-mount dirdeep dirmany fiemap file-ioctl filename fsize fstat inode-flags io sync-file' ;;
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
