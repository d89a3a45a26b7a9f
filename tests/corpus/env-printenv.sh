# env and printenv.
A=1 printenv A; env -u HOME printenv HOME; echo $?; env -i A=b printenv; printenv NOSUCH; echo $?; env B=2 C=3 sh -c 'echo $B$C'; printenv HOME PATH
