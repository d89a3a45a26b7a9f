# unzip of a stored archive made by hand.
printf 'UEsDBAoAAAAAAAAAIQAgMDo2BgAAAAYAAAABAAAAZmhlbGxvClBLAQIKAAoAAAAAAAAAIQAgMDo2BgAAAAYAAAABAAAAAAAAAAAAAACkgQAAAABmUEsFBgAAAAABAAEALwAAACUAAAAAAA==' | base64 -d >z.zip; unzip -l z.zip | grep -c ' f$'; unzip -q -o z.zip; cat f; rm z.zip
