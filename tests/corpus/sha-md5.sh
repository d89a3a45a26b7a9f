# Checksums: known values, check files, large input.
printf abc | md5sum; printf abc | sha1sum; printf abc | sha256sum; printf abc | sha512sum; : | sha256sum; printf abc | crc32
seq 1 50000 >f; sha256sum f >s; sha256sum -c s; echo x >>f; sha256sum -c s 2>/dev/null; echo $?; head -c 1000000 /dev/zero | sha256sum; head -c 1000000 /dev/zero | md5sum; printf abc | sha3sum; echo $?
