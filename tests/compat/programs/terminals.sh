# tmux, vim and less by script, on terminals of their own.
. /compat/common.sh
export TERM=screen
cat >vimrc <<'END'
set nocompatible noswapfile
END
printf 'one\ntwo\nthree\n' >f
check 'vim -es' sh -c 'vim -Nu NONE -es -c "%s/o/0/g" -c "g/t/normal Ax" -c wq f; cat f'
check 'vim, shell' sh -c 'vim -Nu NONE -es -c "r !seq 3" -c "%!sort -r" -c "w out" -c q! f; cat out'
check 'vim, keys' sh -c 'script -qec "vim -Nu NONE -s keys g" /dev/null >/dev/null </dev/null & wait; ls g' 
check 'tmux' sh -c 'tmux -f /dev/null new-session -d -s s -x 60 -y 15 "PS1=\"> \" sh"; tmux list-sessions -F "#{session_name} #{session_windows}"'
check 'keys' sh -c 'sleep 1; tmux send-keys -t s "echo \$((6*7))" Enter; sleep 2; tmux capture-pane -p -t s'
check 'panes' sh -c 'tmux split-window -t s "seq 5; sleep 30"; sleep 1; tmux list-panes -t s -F "#{pane_index} #{pane_width}x#{pane_height}"; tmux capture-pane -p -t s:0.1'
check 'vim in tmux' sh -c 'tmux new-window -t s "vim -Nu NONE h"; sleep 2; tmux send-keys -t s "ihello" Escape ":wq" Enter; sleep 2; cat h'
check 'less in tmux' sh -c 'seq 100 >n; tmux new-window -t s "less n"; sleep 2; tmux send-keys -t s "/55" Enter; sleep 2; tmux capture-pane -p -t s | head -n 3; tmux send-keys -t s q'
check 'resize' sh -c 'tmux new-window -t s sh; sleep 1; tmux resize-window -t s -x 70 -y 20; sleep 1; tmux send-keys -t s "stty size" Enter; sleep 1; tmux capture-pane -p -t s | grep 70'
check 'wait-for' sh -c '(sleep 1; tmux wait-for -S x) & tmux wait-for x; echo told'
check 'end' sh -c 'tmux kill-server; sleep 1; tmux list-sessions'
