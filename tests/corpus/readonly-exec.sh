# Executing needs the x bit, also for root; reading folders and files as what they are not.
cp /bin/busybox true; chmod 644 true; ./true 2>/dev/null; echo $?; chmod 111 true; ./true; echo $?; cat . 2>/dev/null; echo $?; ls true/x 2>/dev/null; echo $?; cd true 2>/dev/null || echo no folder; mkdir d; ./d 2>/dev/null; echo $?; (echo x >d) 2>/dev/null || echo is a folder; rm true
