# A daemon with a pid file: start, status, stop.
printf '#!/bin/sh\nwhile :; do sleep 0.05; done\n' >daemon; chmod +x daemon; ./daemon & echo $! >pid; kill -0 $(cat pid) && echo running; kill $(cat pid); wait $(cat pid) 2>/dev/null; kill -0 $(cat pid) 2>/dev/null || echo stopped; rm pid
