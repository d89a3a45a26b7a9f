/* Port 0 at the other end: nobody is there, and who asks is told so at once. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int result(long value) {
    return value < 0 ? errno : 0;
}

/* A segment of TCP without text from one port to another, and what comes of it. */
static void segment(int raw, struct sockaddr_in *to, int from, int port, int flags) {
    unsigned char bytes[20] = {from >> 8, from, port >> 8, port, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0x10, 0};
    unsigned sum = 2 * (0x7f00 + 1) + IPPROTO_TCP + sizeof bytes;
    for (unsigned at = 0; at < sizeof bytes; at += 2) {
        sum += bytes[at] << 8 | bytes[at + 1];
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~(sum + (sum >> 16));
    bytes[16] = sum >> 8;
    bytes[17] = sum;
    printf("%d to %d, flags %x: %d\n", from, port, flags, result(sendto(raw, bytes, sizeof bytes, 0, (struct sockaddr *)to, sizeof *to)));
    struct pollfd wait = {raw, POLLIN, 0};
    unsigned char room[256];
    while (poll(&wait, 1, 100) > 0 && recv(raw, room, sizeof room, 0) >= 40) {
        printf("  %d to %d, flags %x\n", room[20] << 8 | room[21], room[22] << 8 | room[23], room[33]);
    }
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(20);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 to6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET, SOCK_STREAM, 0), fd6 = socket(AF_INET6, SOCK_STREAM, 0);
    printf("streams: %d", result(connect(fd, (struct sockaddr *)&to, sizeof to)));
    printf(" %d\n", result(connect(fd6, (struct sockaddr *)&to6, sizeof to6)));
    fd = socket(AF_INET, SOCK_DGRAM, 0), fd6 = socket(AF_INET6, SOCK_DGRAM, 0);
    printf("to: %d", result(sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof to)));
    printf(" %d\n", result(sendto(fd6, "x", 1, 0, (struct sockaddr *)&to6, sizeof to6)));
    printf("datagrams: %d", result(connect(fd, (struct sockaddr *)&to, sizeof to)));
    printf(" %d\n", result(connect(fd6, (struct sockaddr *)&to6, sizeof to6)));
    for (int each = 0; each < 3; each++) {
        printf("sent: %d", result(send(fd, "x", 1, 0)));
        printf(" %d\n", result(send(fd6, "x", 1, 0)));
    }
    int raw = socket(AF_INET, SOCK_RAW, IPPROTO_TCP);
    static const int flags[] = {2, 0x10, 4, 0x12, 1};
    for (unsigned each = 0; each < sizeof flags / sizeof *flags; each++) {
        segment(raw, &to, 0, 9, flags[each]);
        segment(raw, &to, 9, 0, flags[each]);
        segment(raw, &to, 0, 0, flags[each]);
    }
    return 0;
}
