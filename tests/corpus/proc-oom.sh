# How likely a process is to end when memory is exhausted: written, inherited, kept by exec, and lowered by the privilege only.
me=/proc/self
show() { cat /proc/$1/oom_score_adj /proc/$1/oom_adj | tr '\n' ' '; echo; }
show self
stat -c '%a %U' $me/oom_score_adj $me/oom_adj $me/oom_score
for value in 0 1 58 59 300 999 1000 -1 -58 -59 -500 -999 -1000; do
    echo $value >/proc/$$/oom_score_adj && show $$
done
for value in -17 -16 -1 0 1 14 15; do echo $value >/proc/$$/oom_adj && show $$; done
for wrong in '' x 1001 -1001 '1 2' 99999999999 1x; do
    echo "$wrong" 2>/dev/null >/proc/$$/oom_score_adj || echo "not [$wrong]"
done
for wrong in -18 16 x; do echo "$wrong" 2>/dev/null >/proc/$$/oom_adj || echo "no old [$wrong]"; done
printf '  250 \n' >/proc/$$/oom_score_adj; show $$
show self
sh -c 'cat /proc/$$/oom_score_adj; exec cat /proc/self/oom_score_adj'
sleep 100 & child=$!
show $child
echo 700 >/proc/$child/oom_score_adj; show $child; show $$
[ "$(cat /proc/$child/oom_score)" -gt "$(cat /proc/$$/oom_score)" ] && echo 'the child first'
echo -1000 >/proc/$child/oom_score_adj; cat /proc/$child/oom_score
kill $child
# An ordinary user: up, and down to what the privileged set last.
echo 100 >/proc/$$/oom_score_adj
cat >/tmp/user.sh <<'END'
cat /proc/$$/oom_score_adj
for value in 500 99 100 -1 300; do
    echo $value 2>/dev/null >/proc/$$/oom_score_adj && echo "now $value" || echo "not $value"
done
echo 0 2>/dev/null >/proc/$$/oom_adj || echo 'not by the old one'
echo 5 2>/dev/null >/proc/1/oom_score_adj || echo "not another's"
cat /proc/$$/oom_score_adj
END
chmod 644 /tmp/user.sh
su -s /bin/sh nobody -c 'sh /tmp/user.sh' 2>&1 || echo "status $?"
rm /tmp/user.sh
