# Arithmetic expansion: operators, precedence, bases, assignment, ternary, overflow of 64 bits.
echo $((1 + 2 * 3)) $(((1 + 2) * 3)) $((7 / 2)) $((-7 / 2)) $((7 % 3)) $((2 ** 10))
echo $((0x1f)) $((017)) $((1 << 10)) $((255 & 15)) $((5 | 8)) $((6 ^ 3)) $((~0)) $((!3))
a=5; echo $((a += 3)) $a $((a > 7 ? 10 : 20)) $((a++)) $a $((--a))
echo $((9223372036854775807 + 1))
echo $((3 == 3 && 2 < 1 || 1))
