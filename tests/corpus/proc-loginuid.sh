# For whom a session was opened at a login: written once, inherited, and changed by the privilege only.
session() { [ "$(cat /proc/self/sessionid)" = 4294967295 ] && echo 'no session' || echo 'a session'; }
cat /proc/self/loginuid; echo; session
echo 1000 >/proc/self/loginuid; echo "status $?"
cat /proc/self/loginuid; echo; session
sh -c 'cat /proc/self/loginuid'; echo
echo 5 2>/dev/null >/proc/1/loginuid || echo 'only its own process writes it'
for wrong in '' x -1 4294967296 '1 2'; do echo "$wrong" 2>/dev/null >/proc/self/loginuid || echo "not [$wrong]"; done
stat -c '%a' /proc/self/loginuid /proc/self/sessionid
echo 4294967295 >/proc/self/loginuid; cat /proc/self/loginuid; echo; session
