# which, type of applets, PATH search order.
which sh; which nosuch; echo $?; mkdir bin; printf '#!/bin/sh\necho mine\n' >bin/ls; chmod +x bin/ls; PATH=$(pwd)/bin:$PATH; ls; PATH=/nowhere; ls 2>/dev/null; echo $?; /bin/echo absolute
