# Renaming while open; replacing an open file; renaming folders with open files below.
echo one >a; exec 3<a; mv a b; read x <&3; echo $x; echo new >c; exec 4<b; mv c b; cat <&4; cat b; mkdir d; echo in >d/f; exec 5<d/f; mv d e; cat <&5; exec 3<&- 4<&- 5<&-; ls
