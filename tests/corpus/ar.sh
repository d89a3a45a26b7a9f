# ar: list, extract, print.
printf '!<arch>\na.txt/          0           0     0     644     6         `\nhello\n' >x.a; ar t x.a; ar p x.a; ar x x.a; cat a.txt
