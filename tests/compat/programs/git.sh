# git: a history of its own, with many operations.
. /compat/common.sh
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org GIT_CONFIG_NOSYSTEM=1
now=1000000000
tick() { now=$((now + 60)); export GIT_AUTHOR_DATE="$now +0000" GIT_COMMITTER_DATE="$now +0000"; }
tick
check 'init' git init -q -b main one
cd one
seq 200 >numbers
mkdir -p a/b
for i in 1 2 3 4 5 6 7 8 9; do echo "file $i" >a/b/f$i; done
ln -s numbers link
printf '#!/bin/sh\necho run\n' >run
chmod +x run
check 'status of the untracked' git status --porcelain
check 'add' git add .
check 'commit' git commit -qm first
check 'head' git rev-parse HEAD
check 'tree' git ls-tree -r HEAD
git checkout -q -b side
sed -i 's/^50$/fifty/' numbers
tick; check 'commit -a' git commit -qam side
git checkout -q main
sed -i 's/^150$/one hundred and fifty/' numbers
git mv a/b/f9 a/f9
tick; check 'a move' git commit -qam moved
tick; check 'merge' git merge -q side -m merged
check 'merged' git log --graph --format=%h:%s
git checkout -q -b conflict side
echo other >numbers
tick; git commit -qam conflict
check 'merge with conflicts' git merge main
check 'conflicts' git diff --name-only --diff-filter=U
check 'abort' git merge --abort
git checkout -q main
check 'diff' git diff HEAD~1 -- numbers
check 'diff --stat' git diff --stat HEAD~2
check 'show' git show --stat HEAD^2
check 'blame' git blame -s numbers
check 'log -S' git log -Sfifty --format=%h
check 'log --follow' git log --follow --format=%h:%s a/f9
check 'grep' git grep -n fi
check 'describe' sh -c 'git tag -a v1 -m v1 HEAD~1; git describe'
check 'archive' sh -c 'git archive HEAD | tar t | sort'
check 'stash' sh -c 'echo x >>numbers; git stash -q; git status --porcelain; git stash pop -q; git status --porcelain; git checkout -q numbers'
for i in 1 2 3 4 5; do echo $i >c$i; git add c$i; tick; git commit -qm c$i; done
check 'rebase' sh -c 'git checkout -q -b topic HEAD~3; echo t >t; git add t; git commit -qm topic; git rebase -q main; git log --format=%s -3'
check 'interactive' env GIT_SEQUENCE_EDITOR="sed -i '2s/pick/squash/'" GIT_EDITOR=true git rebase -q -i HEAD~3
check 'interactive, after' git log --format=%s -3
check 'cherry-pick' sh -c 'git checkout -q main; git cherry-pick topic >/dev/null; git log -1 --format=%s'
check 'revert' sh -c 'git revert --no-edit HEAD >/dev/null; git log -1 --format=%s'
check 'reset' sh -c 'git reset -q --hard HEAD~2; git log -1 --format=%s; git reflog | wc -l'
check 'bisect' sh -c 'git bisect start -q HEAD HEAD~4 >/dev/null; git bisect run sh -c "! test -e c3" | grep -c "is the first"; git bisect reset -q'
check 'clean' sh -c 'mkdir junk; touch junk/x; git clean -fdq; ls junk'
check 'gc' git gc -q --prune=now
check 'count' sh -c 'git count-objects -v | grep -v size'
check 'fsck' git fsck --full --strict
check 'packs' sh -c 'git verify-pack -v .git/objects/pack/*.idx | grep -c blob'
check 'bundle' sh -c 'git bundle create -q ../b main && git bundle verify -q ../b && git clone -q ../b ../frombundle && git -C ../frombundle rev-parse HEAD'
cd ..
check 'clone' git clone -q one two
check 'clone, hard links' sh -c 'find two/.git/objects -links +1 -type f | wc -l | tr -d " " | sed "s/^[1-9].*/some/"'
check 'clone --bare' git clone -q --bare --no-local one bare
check 'clone by file://' git clone -q --depth 2 "file://$PWD/bare" shallow
check 'depth' git -C shallow rev-list --count HEAD
check 'push' sh -c 'cd two; git remote set-url origin ../bare; echo pushed >p; git add p; git commit -qm p; git push -q; git -C ../bare log -1 --format=%s main'
check 'fetch' sh -c 'cd shallow; git fetch -q; git status -sb'
check 'pull' sh -c 'cd shallow; git pull -q --rebase; ls p'
check 'hooks' sh -c 'cd two; printf "#!/bin/sh\ntest ! -e forbidden\n" >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; touch forbidden; git add forbidden; git commit -qm no; git log -1 --format=%s'
check 'work trees' sh -c 'cd one; git worktree add -q ../tree topic; git -C ../tree status -sb; git worktree list | wc -l; git worktree remove ../tree'
check 'sub-modules' sh -c 'cd two; git reset -q --hard; git -c protocol.file.allow=always submodule add -q ../bare sub && git submodule status | cut -c 2-10'
check 'apply' sh -c 'cd one; git format-patch -q -1 -o ../patches HEAD~1; git checkout -q -b applied HEAD~2; git am -q ../patches/*; git log -1 --format=%s'
check 'sparse' sh -c 'cd two; git sparse-checkout set --no-cone /numbers; ls; git sparse-checkout disable'
check 'notes' sh -c 'cd one; git notes add -m note HEAD; git notes show'
check 'attributes' sh -c 'cd one; echo "*.txt text eol=crlf" >.gitattributes; printf "a\nb\n" >x.txt; git add x.txt; git ls-files --eol x.txt'
check 'lock' sh -c 'cd one; touch .git/index.lock; git add x.txt; rm .git/index.lock'
check 'many files' sh -c 'git init -q many; cd many; for i in $(seq 500); do echo $i >f$i; done; git add .; git commit -qm many; git ls-files | wc -l; rm f1*; git status --porcelain | wc -l; git checkout -q .; git status --porcelain'
check 'daemon' sh -c 'git daemon --base-path=. --export-all --listen=127.0.0.1 --port=9418 --pid-file=pid --reuseaddr & for i in 1 2 3 4 5 6 7 8 9; do sleep 1; git clone -q git://127.0.0.1/bare cloned && break; done; git -C cloned log -1 --format=%s; kill $(cat pid)'
