# setuidgid and envdir.
mkdir e; echo value >e/NAME; echo other >e/TWO; envdir e sh -c 'echo $NAME $TWO'; chpst -e e sh -c 'echo $NAME'; chpst -u nobody id -u; setuidgid user id -un; chpst -n 3 nice
