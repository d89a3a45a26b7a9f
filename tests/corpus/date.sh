# date: formats of a given time, in UTC.
export TZ=UTC; date -d @0; date -d @1600000000 '+%Y-%m-%d %H:%M:%S %j %u'; date -u -d '2024-02-29 12:00:00' +%s; date -d @86399 +%T; date -d @1000000000 +%c; TZ=EST5EDT date -d @1600000000 +%H; date +%Y | awk '{ print ($1 >= 2020) ? "now" : "past" }'
