# touch: given times, reference, both times, order by time.
touch -t 202003040506.07 a; stat -c '%Y %n' a; touch -r a b; stat -c %Y b; touch -d '2021-05-06 07:08:09' c; stat -c %Y c; touch -c nowhere; ls; touch -t 199901010000 old; ls -t; ls -tr; date -r a -u; touch -m -t 200001010000 a; stat -c %Y a
