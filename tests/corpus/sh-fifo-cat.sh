# FIFO: opening waits for the other side; end of file when the writer closes.
mkfifo p; (echo through; echo the fifo) >p & cat p; wait
cat p >out & echo late >p; wait; cat out
[ -p p ] && echo fifo
