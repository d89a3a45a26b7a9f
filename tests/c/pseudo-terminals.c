/* Pseudo-terminals: packet mode, bytes typed for others, breaks, the slave from the master's descriptor, stopped output, what is left when a side is closed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define GPTPEER 0x5441
#define GPKT 0x80045438
#define SBRKP 0x5425
#define EXTERNAL 0200000

static int m, s;
static char name[64];

static void say(const char *what, long result) {
    if (result == -1) {
        printf("%s: %s\n", what, strerror(errno));
    } else {
        printf("%s: %ld\n", what, result);
    }
}

#define SAY(call) say(#call, (long)(call))

static void not_waiting(int fd) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static void pair(void) {
    m = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(m);
    unlockpt(m);
    strcpy(name, ptsname(m));
    s = open(name, O_RDWR | O_NOCTTY);
    not_waiting(m);
    not_waiting(s);
}

static void ready(const char *what, int fd) {
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLPRI, 0};
    int count = poll(&p, 1, 0);
    printf("%s: %d ready %x\n", what, count, p.revents);
}

static void bytes(const char *what, int fd) {
    unsigned char b[256];
    int count = read(fd, b, sizeof b);
    if (count < 0) {
        printf("%s: %s\n", what, strerror(errno));
        return;
    }
    printf("%s: %d bytes", what, count);
    for (int at = 0; at < count; at++) {
        printf(" %02x", b[at]);
    }
    printf("\n");
}

static void packets(void) {
    struct termios t;
    int v = 1;
    pair();
    SAY(ioctl(m, TIOCPKT, &v));
    v = 9;
    SAY(ioctl(m, GPKT, &v));
    printf("%d\n", v);
    SAY(ioctl(s, TIOCPKT, &v));
    SAY(ioctl(m, TIOCPKT, NULL));
    SAY(write(s, "hi\n", 3));
    ready("m", m);
    bytes("m", m);
    bytes("m", m);
    SAY(tcflow(s, TCOOFF));
    ready("m", m);
    bytes("m", m);
    SAY(write(s, "x", 1));
    ready("s", s);
    SAY(tcflow(s, TCOON));
    bytes("m", m);
    SAY(tcflush(s, TCIFLUSH));
    bytes("m", m);
    SAY(tcflush(s, TCOFLUSH));
    bytes("m", m);
    SAY(tcflush(s, TCIOFLUSH));
    bytes("m", m);
    tcgetattr(s, &t);
    t.c_iflag &= ~IXON;
    SAY(tcsetattr(s, TCSANOW, &t));
    bytes("m", m);
    t.c_iflag |= IXON;
    SAY(tcsetattr(s, TCSANOW, &t));
    bytes("m", m);
    t.c_lflag |= EXTERNAL;
    SAY(tcsetattr(s, TCSANOW, &t));
    bytes("m", m);
    t.c_lflag &= ~EXTERNAL;
    SAY(tcsetattr(s, TCSANOW, &t));
    bytes("m", m);
    v = 0;
    SAY(ioctl(m, TIOCPKT, &v));
    SAY(write(s, "ab", 2));
    bytes("m", m);
    close(s);
    close(m);
}

static void flow(void) {
    int v = 0;
    pair();
    SAY(write(s, "before", 6));
    SAY(write(m, "\023", 1));
    SAY(write(s, "after", 5));
    bytes("m", m);
    bytes("m", m);
    SAY(write(m, "\021", 1));
    SAY(write(s, "after", 5));
    bytes("m", m);
    SAY(tcflow(s, TCIOFF));
    bytes("m", m);
    SAY(tcflow(s, TCION));
    bytes("m", m);
    SAY(ioctl(s, TCXONC, 9));
    SAY(ioctl(s, TCSBRK, 0));
    SAY(ioctl(s, TCSBRK, 1));
    SAY(ioctl(s, SBRKP, 0));
    SAY(ioctl(s, TIOCSBRK, 0));
    SAY(ioctl(s, TIOCCBRK, 0));
    SAY(write(m, "abc\ndef", 7));
    SAY(ioctl(s, FIONREAD, &v));
    printf("%d\n", v);
    SAY(ioctl(s, TIOCOUTQ, &v));
    printf("%d\n", v);
    SAY(ioctl(m, TIOCOUTQ, &v));
    printf("%d\n", v);
    SAY(ioctl(s, TIOCGSOFTCAR, &v));
    printf("%d\n", v);
    v = 1;
    SAY(ioctl(s, TIOCSSOFTCAR, &v));
    SAY(ioctl(s, TIOCGSOFTCAR, &v));
    printf("%d\n", v);
    close(s);
    close(m);
}

static void typed(void) {
    char c = 'Z', found[64];
    int peer;
    pair();
    SAY(ioctl(s, TIOCSTI, &c));
    c = '\n';
    SAY(ioctl(s, TIOCSTI, &c));
    bytes("s", s);
    bytes("m", m);
    SAY(ioctl(s, TIOCSTI, NULL));
    SAY(seteuid(1000));
    SAY(ioctl(s, TIOCSTI, &c));
    SAY(seteuid(0));
    peer = ioctl(m, GPTPEER, O_RDWR | O_NOCTTY);
    printf("%d\n", peer >= 0);
    SAY(isatty(peer));
    SAY(ttyname_r(peer, found, sizeof found));
    SAY(strcmp(found, name));
    SAY(fcntl(peer, F_GETFD));
    close(peer);
    peer = ioctl(m, GPTPEER, O_RDONLY | O_NOCTTY | O_CLOEXEC);
    SAY(fcntl(peer, F_GETFL) & O_ACCMODE);
    SAY(fcntl(peer, F_GETFD));
    close(peer);
    SAY(ioctl(s, GPTPEER, O_RDWR));
    SAY(ioctl(0, GPTPEER, O_RDWR) >= 0);
    close(s);
    close(m);
}

static void closed(void) {
    struct statfs f;
    struct termios t;
    pair();
    SAY(fstatfs(s, &f));
    printf("%lx\n", (long)f.f_type);
    SAY(statfs("/dev/pts", &f));
    printf("%lx\n", (long)f.f_type);
    SAY(statfs("/dev", &f));
    printf("%lx\n", (long)f.f_type);
    SAY(tcgetpgrp(m));
    SAY(tcgetsid(m));
    SAY(write(s, "left", 4));
    close(s);
    ready("m", m);
    bytes("m", m);
    bytes("m", m);
    ready("m", m);
    s = open(name, O_RDWR | O_NOCTTY);
    not_waiting(s);
    bytes("m", m);
    SAY(write(m, "q\n", 2));
    close(m);
    ready("s", s);
    bytes("s", s);
    SAY(write(s, "z", 1));
    SAY(tcgetattr(s, &t));
    SAY(open(name, O_RDWR | O_NOCTTY));
    close(s);
}

static void sessions(void) {
    pair();
    fflush(stdout);
    if (fork() == 0) {
        SAY(setsid() == getpid());
        SAY(ioctl(m, TIOCSCTTY, 0));
        SAY(tcgetsid(s) == getpid());
        fflush(stdout);
        if (fork() == 0) {
            SAY(setsid() == getpid());
            SAY(ioctl(s, TIOCSCTTY, 0));
            SAY(seteuid(1000));
            SAY(ioctl(s, TIOCSCTTY, 1));
            SAY(seteuid(0));
            SAY(ioctl(s, TIOCSCTTY, 1));
            SAY(tcgetsid(s) == getpid());
            fflush(stdout);
            _exit(0);
        }
        wait(NULL);
        /* It was taken away, and goes on when who took it has ended. */
        SAY(tcgetpgrp(s));
        SAY(open("/dev/tty", O_RDWR));
        SAY(write(s, "on", 2));
        bytes("m", m);
        SAY(ioctl(s, TIOCSCTTY, 0));
        signal(SIGHUP, SIG_IGN);
        SAY(vhangup());
        SAY(write(s, "a", 1));
        bytes("s", s);
        SAY(open("/dev/tty", O_RDWR));
        SAY(vhangup());
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
}

int main(void) {
    packets();
    flow();
    typed();
    closed();
    sessions();
    return 0;
}
