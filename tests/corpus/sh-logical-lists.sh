# Lists with && and ||, grouping, and statuses.
true && echo 1 || echo 2; false && echo 3 || echo 4; true || echo 5; false || false || echo 6; { false; true; } && echo 7; (exit 2) || echo $?; ! false && echo 8; true && false; echo $?; false; true; echo $?
