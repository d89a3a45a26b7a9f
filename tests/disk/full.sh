# A full disk: the right error, nothing lost of what was there, and room again afterwards.
# cairn-test: disk=16M,-m,0
echo precious >keep && sync
dd if=/dev/zero of=fill bs=64k 2>/dev/null; echo "status $?"
size=$(stat -c %s fill); [ "$size" -gt 8000000 ] && echo "most of it"
while dd if=/dev/zero bs=1k count=1 2>/dev/null >>fill; do :; done
(echo more >other) 2>/dev/null; [ -s other ] || echo "not one byte more"
cp keep copy 2>/dev/null || echo "refused"; cat keep
dd if=/dev/zero of=keep bs=1 count=4 conv=notrunc 2>/dev/null && od -An -c keep
rm -f fill other copy; sync
dd if=/dev/zero of=again bs=64k 2>/dev/null; [ "$(stat -c %s again)" -ge $((size - 65536)) ] && echo "room again"
rm again; i=0
while mkdir "d$i" 2>/dev/null && dd if=/dev/zero of="d$i/f" bs=100k count=1 2>/dev/null; do i=$((i + 1)); done
[ $i -gt 80 ] && echo "many folders"; rm -r d*; ls -A
