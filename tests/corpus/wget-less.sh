# Network tools fail cleanly without a network.
nc -w 1 127.0.0.1 9 </dev/null >/dev/null 2>&1; [ $? -ne 0 ] && echo no connection; wget -q -T 1 -O - http://127.0.0.1:9/ >/dev/null 2>&1; [ $? -ne 0 ] && echo no page
