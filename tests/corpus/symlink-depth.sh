# Chains of symbolic links: 39 work, a loop does not; links in the middle of paths; absolute ones.
echo end >l0; i=1; while [ $i -le 39 ]; do ln -s l$((i - 1)) l$i; i=$((i + 1)); done; cat l39; i=40; while [ $i -le 45 ]; do ln -s l$((i - 1)) l$i; i=$((i + 1)); done; cat l45 2>/dev/null; echo $?
mkdir -p a/b; echo in >a/b/f; ln -s a x; ln -s b a/y; cat x/y/f x/y/../b/f; ln -s $(pwd)/a abs; cat abs/b/f; ls -d x/ | cat; rm -f l*
