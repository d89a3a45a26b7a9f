# A here-document larger than a pipe.
{ echo 'cat <<END'; seq 1 20000; echo END; } >s; sh s | md5sum; sh s | wc -l; v=$(seq 1 20000); cat <<END | tail -n 1
$v
END
