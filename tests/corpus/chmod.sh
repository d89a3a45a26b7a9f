# chmod: octal, symbolic, recursive, special bits, what a mode allows root.
touch f; for m in 644 755 000 4755 2755 1777 u=rwx,g=rx,o= a+x g-w,o+r u+s +t a= ug=rw; do chmod $m f; stat -c '%a %A' f; done; mkdir -p d/e; touch d/e/x; chmod -R go-rwx d; find d | sort | xargs stat -c '%a %n'; chmod -R u=rwX,go=rX d; find d | sort | xargs stat -c '%a %n'; chmod 644 nowhere 2>/dev/null; echo $?
