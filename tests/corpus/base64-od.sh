# base64, uuencode-less, od, hexdump, xxd, strings.
printf 'hello\0world\377' >f; base64 f; base64 f | base64 -d | cmp - f && echo same; od -c f; od -An -tx1 f; hexdump -C f; xxd f; xxd -p f; xxd -p f | xxd -r -p | cmp - f && echo again; strings f; od -d f
