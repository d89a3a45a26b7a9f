# command, type, alias, hash.
command -v ls; command -v cd; command echo plain; type cd; type nosuch 2>/dev/null; echo $?
alias hi='echo hello'; eval hi
ls() { echo function; }; ls; command ls -d /
