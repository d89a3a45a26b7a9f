# Six times more data in files than there is memory, by four programs at a time: written, changed here and there, and read again.
# cairn-test: limit=1200 mem=96M disk=800M,-b,4096
worker() {
    yes "a line of worker $1's file" | head -c 145000000 >data$1
    for n in 3 37 70 103 137; do
        yes "worker $1 was here" | head -c 1000003 | dd of=data$1 bs=1000003 seek=$n conv=notrunc 2>/dev/null
    done
    md5sum <data$1 >result$1
}
for p in 1 2 3 4; do worker $p & done; wait
cat result*
for p in 1 2 3 4; do tail -c 1000000 data$p | md5sum; stat -c %s data$p; done
rm data* result*; ls -A
