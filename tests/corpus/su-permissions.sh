# Permissions of an unprivileged user.
chmod 755 .; echo secret >f; chmod 600 f; echo open >g; chmod 644 g; mkdir d; chmod 700 d; mkdir -m 1777 t; touch t/root
cat >s <<'END'
cat f 2>/dev/null || echo no read; cat g; (echo x >g) 2>/dev/null || echo no write; ls d 2>/dev/null || echo no list; touch new 2>/dev/null || echo no create
echo mine >t/mine && cat t/mine; rm -f t/root 2>/dev/null || echo sticky; id -u; kill -9 1 2>/dev/null || echo no kill; chown 0 t/mine 2>/dev/null || echo no chown; chmod 777 g 2>/dev/null || echo no chmod
mv g h 2>/dev/null || echo no rename; ln -s x y 2>/dev/null || echo no link; mkdir z 2>/dev/null || echo no folder; cat d/x 2>/dev/null || echo no search; cd d 2>/dev/null || echo no cd
END
chmod 755 s; for up in / /work; do chmod 755 $up; done; su user -s /bin/sh -c "cd $(pwd); sh ./s"; stat -c %U t/mine
