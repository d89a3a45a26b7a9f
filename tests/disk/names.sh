# Names: created, linked, renamed over, removed; of all lengths and bytes; what is refused.
[ "$(grep -c ' /mnt ext4 ' /proc/mounts)" = 1 ] && stat -f -c '%T %l' /mnt
long=$(printf '%0255d' 7)
echo long >"$long" && cat "$long" && mv "$long" short && ls
(echo too >"${long}8") 2>/dev/null || echo "256 bytes: refused"
printf x >"$(printf 'a\nb')" && printf y >'sp ace' && printf z >-- '*' && printf u >"$(printf '\303\244\377')"
ls -1q | sort; rm -f -- *
echo one >a && ln a b && ln b c && stat -c '%h %s' a && echo two >>b && cat c && rm a && stat -c %h c
echo new >n && mv n b && cat b c && stat -c %h b c
ln b b 2>/dev/null || echo "link over itself: refused"
mkdir d e && touch d/x && { mv e d 2>/dev/null; ls d; }
mkdir full empty && touch full/x
mv empty full 2>/dev/null; find . | sort
mv -T d full 2>/dev/null || echo "over a full folder: refused"
mv -T full d/e && find . | sort
mv d d/x/y 2>/dev/null || echo "into a file: refused"
mv d d/e/inside 2>/dev/null || echo "into itself: refused"
rmdir d 2>/dev/null || echo "not empty"
ln d hard 2>/dev/null || echo "folders have one name"
ln -s target s && readlink s && ln -s "$(printf '%059d' 1)" fast && ln -s "$(printf '%060d' 1)" slow && stat -c '%s %N' fast slow
ln -s "$(printf 'd/%01000d' 3)" longer && readlink longer | wc -c
ln -s d/e through && ls through && echo via >through/via && cat d/e/via
ln -s loop loop; cat loop 2>/dev/null || echo loop
cd d/e && rm -r ../../d && ls -a; touch here 2>/dev/null || echo "in a removed folder: refused"; cd ../.. 2>/dev/null; cd /mnt/disk-names && ls
rm -rf ./* && ls -A
