# Perl: files, processes, signals, sockets of a pair, formats.
perl -e '
my %h = (a => 1, b => 2); print join(",", map { "$_=$h{$_}" } sort keys %h), "\n";
open(my $f, ">", "p.txt") or die; print $f "x\n" x 5; close $f;
open($f, "<", "p.txt"); my @l = <$f>; print scalar(@l), "\n"; print `echo sub`;
my $pid = fork(); if (!$pid) { exit 4 } waitpid($pid, 0); print $? >> 8, "\n";
$SIG{USR1} = sub { print "usr1\n" }; kill "USR1", $$;
print -s "p.txt", "\n"; printf "%.3f %05d %s\n", 3.14159, 42, join(" ", sort { $a <=> $b } 10, 9, 8);
my $text = "The quick brown fox"; (my $t = $text) =~ s/(\w+)/\u\L$1/g; print "$t\n"; print scalar reverse($text), "\n";
opendir(my $d, "."); print join(" ", grep { /^p/ } sort readdir $d), "\n";
local $SIG{ALRM} = sub { die "alarm\n" }; eval { alarm 1; select(undef, undef, undef, 5) }; print $@;
pipe(my $r, my $w); if (!fork()) { close $r; print $w "through\n"; exit } close $w; print <$r>; wait; print $?, "\n";
rename "p.txt", "q.txt" or die; print((stat "q.txt")[7], " ", -e "p.txt" ? "there" : "gone", "\n"); print $! + 0, "\n" unless open(my $n, "<", "/none");
'
echo "status $?"
