/* IPV6_V6ONLY: it is 1 once a socket has an address of IPv6 that it asked for, stays, and is its connections'. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in6 address(const char *text, int port) {
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = port};
    inet_pton(AF_INET6, text, &at.sin6_addr);
    return at;
}

static int only(int fd) {
    int value = -1;
    socklen_t length = sizeof value;
    getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &value, &length);
    return value;
}

static int joined(int fd, const char *text, int port) {
    struct sockaddr_in6 to = address(text, port);
    return connect(fd, (struct sockaddr *)&to, sizeof to) ? errno : 0;
}

int main(void) {
    static const char *const addresses[] = {"::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0", "2001:db8::9"};
    static const int kinds[] = {SOCK_STREAM, SOCK_DGRAM};
    setvbuf(stdout, NULL, _IOLBF, 0);
    int off = 0, on = 1;
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    for (int kind = 0; kind < 2; kind++) {
        for (int each = 0; each < 5; each++) {
            for (int before = 0; before < 2; before++) {
                int fd = socket(AF_INET6, kinds[kind], 0);
                setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, before ? &on : &off, sizeof on);
                struct sockaddr_in6 at = address(addresses[each], 0);
                printf("%d %s, before %d:", kind, addresses[each], only(fd));
                int result = bind(fd, (struct sockaddr *)&at, sizeof at) ? errno : 0;
                socklen_t length = sizeof at;
                getsockname(fd, (struct sockaddr *)&at, &length);
                printf(" %d, after %d", result, only(fd));
                result = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) ? errno : 0;
                printf(", off %d %d\n", result, only(fd));
                if (kinds[kind] == SOCK_STREAM) {
                    listen(fd, 4);
                    static const char *const from[] = {"::1", "::ffff:127.0.0.1"};
                    for (int of = 0; of < 2; of++) {
                        int client = socket(AF_INET6, SOCK_STREAM, 0);
                        result = joined(client, from[of], at.sin6_port);
                        int peer = result ? -1 : accept(fd, NULL, NULL);
                        printf("  by %s: %d, client %d, peer %d\n", from[of], result, only(client), only(peer));
                        close(client);
                        close(peer);
                    }
                } else {
                    static const char *const to[] = {"::1", "::ffff:127.0.0.1"};
                    for (int of = 0; of < 2; of++) {
                        result = joined(fd, to[of], htons(9));
                        printf("  to %s: %d %d,", to[of], result, only(fd));
                        connect(fd, &none, sizeof none);
                        printf(" none: %d\n", only(fd));
                    }
                }
                close(fd);
            }
        }
    }
    /* A connection to IPv4 from such an address. */
    int listener = socket(AF_INET6, SOCK_STREAM, 0), fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 at = address("::", 0);
    bind(listener, (struct sockaddr *)&at, sizeof at);
    socklen_t length = sizeof at;
    getsockname(listener, (struct sockaddr *)&at, &length);
    listen(listener, 4);
    struct sockaddr_in6 own = address("::1", 0);
    bind(fd, (struct sockaddr *)&own, sizeof own);
    printf("to IPv4: %d\n", joined(fd, "::ffff:127.0.0.1", at.sin6_port));
    printf("to IPv6: %d\n", joined(fd, "::1", at.sin6_port));
    printf("%d %d\n", only(fd), only(listener));
    /* One that did not get its port. */
    struct sockaddr_in6 taken = address("::1", at.sin6_port);
    int late = socket(AF_INET6, SOCK_STREAM, 0);
    printf("late: %d", bind(late, (struct sockaddr *)&taken, sizeof taken) ? errno : 0);
    printf(" %d\n", only(late));
    int raw = socket(AF_INET6, SOCK_RAW, 253);
    printf("raw: %d", bind(raw, (struct sockaddr *)&own, sizeof own) ? errno : 0);
    printf(" %d\n", only(raw));
    return 0;
}
