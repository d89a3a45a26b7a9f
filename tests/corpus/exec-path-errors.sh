# Statuses of what cannot be executed.
./nowhere 2>/dev/null; echo $?; printf '\177ELFgarbage' >g; chmod +x g; ./g 2>/dev/null; echo $?; : >e; chmod +x e; ./e; echo $?; printf '#!' >h; chmod +x h; ./h 2>/dev/null; echo $?; env nosuch 2>/dev/null; echo $?; nice nosuch 2>/dev/null; echo $?; ln -s loop loop; ./loop 2>/dev/null; echo $?
