# A disk by fsopen, fsconfig, fsmount and move_mount, and changed by fspick and mount_setattr.
# cairn-test: root=debian
here=$(pwd); dev=$(findmnt -no SOURCE /mnt); echo one >f; cd /
calls='
our $none = ""; sub told { my ($what, $result) = @_; print "$what: ", $result < 0 ? $!+0 : "done", "\n"; return $result }
sub set { my ($fd, $what, $key, $value) = @_; $key = "$key" if $key; return syscall(431, $fd, $what, $key, $value, 0) }
sub fs { my ($kind, $source, @words) = @_; my $fd = syscall(430, $kind, 1); set($fd, 1, "source", $source) if $source; told("$_", set($fd, 0, $_, 0)) for @words; return $fd }
sub make { return told("create", set($_[0], 6, 0, 0)) }
sub mounted { my ($fd, $attributes, $place) = @_; my $mount = told("fsmount", syscall(432, $fd, 1, $attributes)); return told("move", syscall(429, $mount, $none, -100, $place, 4)) }
sub changed { my ($place, @words) = @_; my $fd = told("fspick", syscall(433, -100, $place, 1)); told("$_", set($fd, 0, $_, 0)) for @words; told("reconfigure", set($fd, 7, 0, 0)) }
$| = 1; our $absent = "/absent"; our $mnt = "/mnt"; my $dev = $ARGV[0];
'
run() { perl -e "$calls $1" "$dev" 2>&1; }
umount /mnt && echo unmounted
run 'my $fd = fs("ext4"); make($fd); make($fd); told("fsmount", syscall(432, $fd, 0, 0));'
run 'for (qw(/absent /etc/passwd /dev/null)) { make(fs("ext4", $_)) }'
run 'fs("ext4", $dev, "nosuch", "discard", "nosuch=1"); my $fd = fs("nonsense"); told("no such type", $fd);'
run 'my $fd = fs("ext4", $dev); make($fd); mounted($fd, 0, "/absent"); mounted($fd, 0, "/mnt");'
run 'my $fd = fs("ext4", $dev); make($fd); my $mount = syscall(432, $fd, 1, 0); told("move", syscall(429, $mount, $none, -100, $absent, 4)); told("move", syscall(429, $mount, $none, -100, $mnt, 4))'
findmnt -no SOURCE,FSTYPE /mnt; cat "$here/f"; echo two >>"$here/f"
run 'changed("/mnt", "ro")'; touch "$here/g" 2>/dev/null; echo "read-only: $?"; findmnt -no OPTIONS /mnt | cut -d, -f1
run 'changed("/mnt", "rw")'; touch "$here/g"; echo "writable: $?"; run 'changed("/mnt", "nosuch"); changed("/etc", "ro")'
umount /mnt && run 'my $fd = fs("ext4", $dev, "ro"); make($fd); mounted($fd, 0x10 | 2, "/mnt")'
findmnt -no OPTIONS /mnt | tr , '\n' | grep -E '^(ro|nosuid|noatime)$' | sort; cat "$here/f"; umount /mnt
run 'my $fd = fs("ext4", $dev); make($fd); my $mount = syscall(432, $fd, 1, 0); print "dropped\n"'
for n in $(seq 20); do run 'my $fd = fs("ext4", $dev); make($fd); my $m = syscall(432, $fd, 1, 0); syscall(429, $m, $none, -100, $mnt, 4) < 0 and print "move: $!\n"'; umount /mnt || echo "$n: $?"; done
mount "$dev" /mnt && cat "$here/f"; cd "$here" && rm f g
