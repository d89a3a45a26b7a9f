# Executing needs the x bit, also for root; reading folders and files as what they are not.
cp /bin/busybox b; chmod 644 b; ./b true 2>/dev/null; echo $?; chmod 111 b; ./b true; echo $?; cat . 2>/dev/null; echo $?; ls b/x 2>/dev/null; echo $?; cd b 2>/dev/null || echo no folder; mkdir d; ./d 2>/dev/null; echo $?; echo x >d 2>/dev/null || echo is a folder; rm b
