# A file that is removed while open: still there for its holder, gone by name.
exec 3<>f; echo content >&3; rm f; ls; echo more >&3; cat <&3; exec 4</etc/hostname; cat <&4; exec 3>&- 4<&-; echo done
sh -c 'exec 5>g; rm g; echo x >&5; echo ok'; mkdir d; cd d; rmdir ../d; ls 2>/dev/null; echo $?; touch x 2>/dev/null; echo $?; cd ..
