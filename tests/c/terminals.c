/* Terminals: a pair of them, line editing, raw reads with their timers, job control, window size, hang-up, names. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static int master, slave;

static void show(const char *what, const char *bytes, ssize_t n) {
    printf("%s: %zd ", what, n);
    if (n < 0) {
        printf("%s", strerror(errno));
    }
    for (ssize_t i = 0; i < n; i++) {
        unsigned char c = bytes[i];
        if (c < 32 || c > 126) {
            printf("\\%02x", c);
        } else {
            putchar(c);
        }
    }
    putchar('\n');
}

static void put(int fd, const char *text) {
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text)) {
        printf("write: %s\n", strerror(errno));
    }
}

/* At least so many bytes, however late they come, and whatever follows within a moment. */
static void get(const char *what, int fd, ssize_t least) {
    char buffer[512];
    ssize_t n = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (n < (ssize_t)sizeof buffer && poll(&p, 1, n < least ? -1 : 50) == 1) {
        ssize_t more = read(fd, buffer + n, sizeof buffer - n);
        if (more <= 0) {
            if (n == 0) {
                n = more;
            }
            break;
        }
        n += more;
    }
    show(what, buffer, n);
}

static void open_pair(void) {
    master = posix_openpt(O_RDWR | O_NOCTTY);
    unlockpt(master);
    char name[64];
    if (ptsname_r(master, name, sizeof name) != 0) {
        printf("ptsname: %s\n", strerror(errno));
        exit(1);
    }
    slave = open(name, O_RDWR | O_NOCTTY);
    if (slave < 0) {
        printf("open %s: %s\n", name, strerror(errno));
        exit(1);
    }
    char again[64];
    int error = ttyname_r(slave, again, sizeof again);
    printf("a pair: %d, isatty %d %d, name agrees %d\n", error, isatty(master), isatty(slave), strcmp(name, again) == 0);
    struct stat s;
    fstat(slave, &s);
    printf("a character device %d, major %u\n", S_ISCHR(s.st_mode), major(s.st_rdev));
}

static void close_pair(void) {
    close(slave);
    close(master);
}

static void lines(void) {
    struct pollfd p = {.fd = slave, .events = POLLIN | POLLOUT};
    int ready = poll(&p, 1, 0);
    printf("nothing typed: poll %d, events %x\n", ready, p.revents);
    put(master, "abc\177d\rnext\n");
    p.events = POLLIN;
    ready = poll(&p, 1, -1);
    int waiting = 0;
    ioctl(slave, FIONREAD, &waiting);
    printf("typed: poll %d, events %x, waiting %d\n", ready, p.revents, waiting);
    char buffer[64];
    show("line", buffer, read(slave, buffer, sizeof buffer));
    show("in pieces", buffer, read(slave, buffer, 2));
    show("in pieces", buffer, read(slave, buffer, sizeof buffer));
    put(master, "\004");
    show("end of file", buffer, read(slave, buffer, sizeof buffer));
    put(master, "no end\004");
    show("without newline", buffer, read(slave, buffer, sizeof buffer));
    get("echo", master, 21);
    put(slave, "one\ntwo\tx\n");
    get("output", master, 12);
    put(master, "words to erase\027\027\r\ttab\177\177\177\177x\r\026\003\025kill\r");
    get("echo of editing", master, 80);
    tcflush(slave, TCIFLUSH);
    fcntl(slave, F_SETFL, O_NONBLOCK);
    show("nothing", buffer, read(slave, buffer, sizeof buffer));
    fcntl(slave, F_SETFL, 0);
}

static long milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void raw(void) {
    struct termios saved, t;
    tcgetattr(slave, &saved);
    t = saved;
    cfmakeraw(&t);
    char buffer[64];
    static const struct {
        int min, time;
        const char *typed;
    } rows[] = {{0, 0, ""}, {0, 2, ""}, {0, 100, "x"}, {1, 0, "abc"}, {5, 1, "abc"}, {3, 0, "abcdef"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        t.c_cc[VMIN] = rows[i].min;
        t.c_cc[VTIME] = rows[i].time;
        tcsetattr(slave, TCSAFLUSH, &t);
        put(master, rows[i].typed);
        long begin = milliseconds();
        ssize_t n = read(slave, buffer, sizeof buffer);
        long took = milliseconds() - begin;
        long wanted = n == 0 || (rows[i].min > n) ? rows[i].time * 100 : 0;
        printf("VMIN %d VTIME %d waits %ld ms: %s, ", rows[i].min, rows[i].time, wanted, took >= wanted - 5 ? "yes" : "no");
        show("read", buffer, n);
    }
    put(slave, "a\nb");
    get("raw output", master, 3);
    tcsetattr(slave, TCSANOW, &saved);
    struct termios now;
    tcgetattr(slave, &now);
    printf("settings come back: %d\n", memcmp(&now, &saved, sizeof now) == 0);
}

/* System V's structure, and settings that are locked. */
static void old_settings(void) {
    enum { GET = 0x5405, SET, SET_DRAINED, SET_FLUSHED, GET_LOCKED = 0x5456, SET_LOCKED };
    struct old { unsigned short input, output, control, local; unsigned char line, cc[8]; } old, now;
    struct { unsigned flags[4]; unsigned char line, cc[19]; } locked;
    struct termios saved, t;
    tcgetattr(slave, &saved);
    memset(&old, 0x5a, sizeof old);
    printf("old settings: %d, ", ioctl(slave, GET, &old));
    printf("%o %o %o %o\n", old.input, old.output, old.control, old.local);
    for (int how = SET; how <= SET_FLUSHED; how++) {
        old.cc[0] = how;
        old.local ^= ECHO;
        printf("set: %d, ", ioctl(slave, how, &old));
        printf("read: %d, ", ioctl(slave, GET, &now));
        tcgetattr(slave, &t);
        printf("%d %d %o %d\n", memcmp(&old, &now, sizeof now), t.c_cc[0], t.c_lflag, memcmp(t.c_cc + 8, saved.c_cc + 8, 9));
    }
    printf("locked: %d, ", ioctl(slave, GET_LOCKED, &locked));
    printf("%u %d\n", locked.flags[3], locked.cc[0]);
    locked.flags[3] = ECHO;
    locked.cc[1] = 1;
    printf("lock: %d, ", ioctl(slave, SET_LOCKED, &locked));
    old.local ^= ECHO | ISIG;
    old.cc[0] = 'a';
    old.cc[1] = 'b';
    printf("set: %d, ", ioctl(slave, SET, &old));
    tcgetattr(slave, &t);
    printf("%d %d %o\n", t.c_cc[0], t.c_cc[1], t.c_lflag);
    memset(&locked, 0, sizeof locked);
    printf("unlock: %d, ", ioctl(slave, SET_LOCKED, &locked));
    printf("set: %d\n", tcsetattr(slave, TCSANOW, &saved));
}

static volatile sig_atomic_t resized, hung, interrupted;
static void on_resize(int signal) { resized += signal == SIGWINCH; }
static void on_hang_up(int signal) { hung += signal == SIGHUP; }
static void on_interrupt(int signal) { interrupted += signal == SIGINT; }

static void catch(int signal, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(signal, &action, NULL);
}

/* The leader of a session on the slave, with a job in the background; talks by a pipe. */
static void session(int out) {
    setbuf(stdout, NULL);
    dup2(out, 1);
    const char *name = ptsname(master);
    close(master);
    setsid();
    printf("open without O_NOCTTY: ");
    int terminal = open(name, O_RDWR);
    printf("%s, session %d, foreground %d\n", terminal < 0 ? strerror(errno) : "ok", tcgetsid(terminal) == getpid(), tcgetpgrp(terminal) == getpid());
    int own = open("/dev/tty", O_RDWR);
    struct stat s;
    printf("/dev/tty: %s", own < 0 ? strerror(errno) : "ok");
    printf(", %d\n", own >= 0 && fstat(own, &s) == 0 && s.st_rdev == makedev(5, 0));
    catch(SIGWINCH, on_resize);
    catch(SIGHUP, on_hang_up);
    catch(SIGINT, on_interrupt);
    signal(SIGTTOU, SIG_IGN);
    pid_t job = fork();
    if (job == 0) {
        setpgid(0, 0);
        signal(SIGTTOU, SIG_DFL);
        signal(SIGHUP, SIG_DFL);
        char c;
        read(terminal, &c, 1);
        _exit(c);
    }
    setpgid(job, job);
    int status;
    waitpid(job, &status, WUNTRACED);
    printf("a reader in the background: stopped %d by %d\n", WIFSTOPPED(status), WIFSTOPPED(status) ? WSTOPSIG(status) : -1);
    printf("to the foreground: %d\n", tcsetpgrp(terminal, job));
    kill(job, SIGCONT);
    printf("READY 1\n");
    waitpid(job, &status, WUNTRACED);
    printf("reads there: exited %d with %d\n", WIFEXITED(status), WEXITSTATUS(status));
    printf("back: %d\n", tcsetpgrp(terminal, getpid()));
    int result = tcsetpgrp(terminal, 32000);
    printf("no such group: %d %s\n", result, strerror(errno));
    printf("READY 2\n");
    while (!resized || !interrupted) {
        usleep(1000);
    }
    struct winsize size;
    ioctl(terminal, TIOCGWINSZ, &size);
    printf("resized to %dx%d, interrupted %d\n", size.ws_row, size.ws_col, interrupted);
    printf("READY 3\n");
    while (!hung) {
        usleep(1000);
    }
    char c;
    ssize_t n = read(terminal, &c, 1);
    printf("hung up: read %zd, ", n);
    n = write(terminal, "x", 1);
    printf("write %zd %s\n", n, strerror(errno));
    result = open("/dev/tty", O_RDWR);
    printf("/dev/tty afterwards: %d %s\n", result, strerror(errno));
    _exit(0);
}

static FILE *talk;
static void until(const char *mark) {
    char line[200];
    while (fgets(line, sizeof line, talk)) {
        if (mark && strncmp(line, mark, strlen(mark)) == 0) {
            return;
        }
        fputs(line, stdout);
    }
}

static void job_control(void) {
    int p[2];
    if (pipe(p) < 0) {
        return;
    }
    pid_t leader = fork();
    if (leader == 0) {
        close(p[0]);
        close(slave);
        session(p[1]);
    }
    close(p[1]);
    close(slave);
    talk = fdopen(p[0], "r");
    until("READY 1");
    put(master, "A\r");
    until("READY 2");
    struct winsize size = {.ws_row = 40, .ws_col = 132};
    ioctl(master, TIOCSWINSZ, &size);
    ioctl(master, TIOCSWINSZ, &size);
    put(master, "\003");
    until("READY 3");
    get("the master saw", master, 5);
    close(master);
    until(NULL);
    int status;
    waitpid(leader, &status, 0);
    printf("the leader ended: %d\n", WEXITSTATUS(status));
    fclose(talk);
}

/* As sshd, login and mesg do: the terminal becomes somebody's, who opens it and closes it to others. */
static void give_away(void) {
    struct stat s;
    const char *name = ptsname(master);
    int error = chown(name, 1000, 5) | chmod(name, 0620);
    stat(name, &s);
    printf("given away: %d, %o of %u %u\n", error, s.st_mode & 07777, s.st_uid, s.st_gid);
    for (int user = 1000; user < 1002; user++) {
        if (fork() == 0) {
            setgid(user);
            setuid(user);
            int own = open(name, O_RDWR | O_NOCTTY);
            printf("user %d opens it: %d, closes it to others: %d\n", user, own >= 0, chmod(name, 0600));
            _exit(0);
        }
        wait(NULL);
    }
    error = fchmod(slave, 0622);
    fstat(slave, &s);
    printf("by its descriptor: %d, %o\n", error, s.st_mode & 07777);
    chown(name, 0, 5);
}

int main(void) {
    setbuf(stdout, NULL);
    open_pair();
    give_away();
    lines();
    raw();
    old_settings();
    close_pair();
    open_pair();
    put(slave, "last words");
    close(slave);
    get("after the slave closed", master, 10);
    char c;
    ssize_t n = read(master, &c, 1);
    printf("then: %zd %s\n", n, strerror(errno));
    struct pollfd poller = {.fd = master, .events = POLLIN};
    poll(&poller, 1, 0);
    printf("poll says hung up: %d\n", (poller.revents & POLLHUP) != 0);
    close(master);
    open_pair();
    job_control();
    return 0;
}
