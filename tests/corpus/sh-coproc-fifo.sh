# Two processes talk through two FIFOs.
mkfifo to from
(while read l; do echo "echo: $l"; done <to >from) &
exec 3>to 4<from
echo one >&3; read a <&4; echo two >&3; read b <&4; echo "$a; $b"
exec 3>&-; cat <&4; wait; rm to from
