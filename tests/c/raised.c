/* Programs with set-id bits: whose ids they run with, what of their caller they find, and what is kept from it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USER = 1000, OWN = 1001, OTHER = 77, GROUP = 88 };

static void ids(const char *what) {
    unsigned r, e, s, rg, eg, sg;
    getresuid(&r, &e, &s);
    getresgid(&rg, &eg, &sg);
    printf("%s: %u %u %u, %u %u %u, secure %lu, %lu %lu %lu %lu, dumpable %d\n", what, r, e, s, rg, eg, sg, getauxval(AT_SECURE), getauxval(AT_UID),
           getauxval(AT_EUID), getauxval(AT_GID), getauxval(AT_EGID), prctl(PR_GET_DUMPABLE));
}

static void capabilities(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        unsigned long long set;
        char name[8];
        if (sscanf(line, "Cap%7[A-Za-z]: %llx", name, &set) == 2)
            printf(" %s %09llx", name, set & 0x1ffffffffULL);
    }
    printf("\n");
    fclose(file);
}

static void handler(int signal) { (void)signal; }

/* What the program with the bits does. */
static int raised(const char *how, char **arguments) {
    if (strcmp(how, "ids") == 0) {
        ids(arguments[0]);
        capabilities();
    } else if (strcmp(how, "kept") == 0) {
        ids("kept");
        int death = -1;
        prctl(PR_GET_PDEATHSIG, &death);
        sigset_t mask, pending;
        sigprocmask(SIG_SETMASK, NULL, &mask);
        sigpending(&pending);
        struct sigaction ignored, caught;
        sigaction(SIGUSR1, NULL, &ignored);
        sigaction(SIGUSR2, NULL, &caught);
        stack_t stack;
        sigaltstack(NULL, &stack);
        struct itimerval timer;
        getitimer(ITIMER_REAL, &timer);
        struct rlimit files;
        getrlimit(RLIMIT_NOFILE, &files);
        char cwd[100], name[17] = "";
        prctl(PR_GET_NAME, name);
        printf(" death %d, blocked %d %d, waits %d %d, ignored %d, caught %d, stack %d, timer %d, files %d, umask %o, nice %d, name %s\n", death,
               sigismember(&mask, SIGTERM), sigismember(&mask, SIGINT), sigismember(&pending, SIGTERM), sigismember(&pending, SIGINT),
               ignored.sa_handler == SIG_IGN, caught.sa_handler == handler, stack.ss_flags, timer.it_value.tv_sec > 0, (int)files.rlim_cur,
               umask(0), getpriority(PRIO_PROCESS, 0), name);
        umask(022);
        printf(" cwd %s, argument %s, A %s\n", strrchr(getcwd(cwd, sizeof cwd), '/'), arguments[0], getenv("A"));
        printf(" positions %d %d, closed %d, cpus %d\n", (int)lseek(5, 0, SEEK_CUR), (int)lseek(6, 2, SEEK_CUR), fcntl(7, F_GETFD),
               sched_getaffinity(0, sizeof(cpu_set_t), &(cpu_set_t){}) >= 0);
        printf(" shared %d\n", (int)lseek(5, 0, SEEK_CUR));
        siginfo_t info;
        sigset_t term;
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        int got = sigwaitinfo(&term, &info);
        printf(" took %d from %d, self %d\n", got, info.si_uid, info.si_pid == getpid());
        int fd = open("made", O_CREAT | O_WRONLY | O_EXCL, 0600);
        struct stat st = {};
        fstat(fd, &st);
        printf(" made by %d %d\n", st.st_uid, st.st_gid);
        unlink("made");
        printf(" access %d, eaccess %d\n", access("secret", R_OK), faccessat(AT_FDCWD, "secret", R_OK, AT_EACCESS));
        printf(" down %d", seteuid(getuid()));
        printf(" refused %d up %d", open("secret", O_RDONLY), seteuid(0));
        printf(" for good %d", setuid(getuid()));
        printf(" up %d\n", seteuid(0));
    } else if (strcmp(how, "standard") == 0) {
        for (int fd = 0; fd < 3; fd++) {
            /* The C libraries do not agree what they are. */
            struct stat st = {};
            int there = fstat(fd, &st);
            dprintf(9, "%d: %d, device %d\n", fd, there, S_ISCHR(st.st_mode));
        }
    } else if (strcmp(how, "many") == 0) {
        /* Each third of these is the first one's, each other a file of its own at its own place; every tenth of them was to be closed. */
        int wrong = 0, open_ones = 0;
        for (int fd = 20; fd < 920; fd++) {
            int place = (int)lseek(fd, 0, SEEK_CUR), is_open = fd % 10 != 9;
            open_ones += place >= 0;
            wrong += place != (!is_open ? -1 : fd % 3 == 2 ? 5 : fd);
        }
        lseek(20, 6, SEEK_SET);
        int shared = 0;
        for (int fd = 20; fd < 920; fd++) {
            shared += lseek(fd, 0, SEEK_CUR) == 6;
        }
        printf("many: %d open, %d wrong, %d share a place, the next %d\n", open_ones, wrong, shared, dup(20));
    } else if (strcmp(how, "jailed") == 0) {
        struct stat st;
        char cwd[100] = "";
        printf("jailed: %d, mark %d, outside %d %d, cwd %s\n", geteuid(), stat("/mark", &st), stat("/raised", &st), stat("/../../etc", &st),
               getcwd(cwd, sizeof cwd));
    } else if (strcmp(how, "wait") == 0) {
        char byte = 'x';
        write(1, &byte, 1);
        read(0, &byte, 1);
        return 7;
    }
    fflush(stdout);
    return 0;
}

static void become_user(void) {
    setgroups(0, NULL);
    if (setresgid(OWN, OWN, OWN) || setresuid(USER, USER, USER))
        _exit(9);
}

static int status_of(pid_t pid) {
    int status;
    waitpid(pid, &status, 0);
    return status;
}

/* Run the program in `path` as the user, after `before`. */
static void run(const char *path, const char *how, const char *what, void (*before)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        become_user();
        if (before)
            before();
        execl(path, path, how, what, NULL);
        printf("%s: %s\n", what, strerror(errno));
        fflush(stdout);
        _exit(1);
    }
    int status = status_of(pid);
    if (status)
        printf("%s: status %x\n", what, status);
}

static void copy(const char *to, int mode, int uid, int gid) {
    char bytes[65536];
    int in = open("/proc/self/exe", O_RDONLY), out = open(to, O_CREAT | O_WRONLY | O_TRUNC, 0755);
    for (ssize_t n; (n = read(in, bytes, sizeof bytes)) > 0;)
        write(out, bytes, n);
    close(in);
    if (fchown(out, uid, gid) || fchmod(out, mode))
        printf("%s: %s\n", to, strerror(errno));
    close(out);
}

static void no_new(void) { prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }

static void arrange(void) {
    static char stack[65536];
    prctl(PR_SET_PDEATHSIG, SIGHUP);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGTERM);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, handler);
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_sec = 1000}, NULL);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){77, 99});
    umask(027);
    /* (Whatever it was before.) */
    setpriority(PRIO_PROCESS, 0, 3);
    setenv("A", "b", 1);
    int fd = open("/proc/self/exe", O_RDONLY);
    dup2(fd, 5);
    dup2(5, 6);
    fcntl(fd, F_DUPFD_CLOEXEC, 7);
    close(fd);
    lseek(5, 40, SEEK_SET);
}

static void *in_thread(void *path) {
    execl(path, path, "ids", "by a thread", NULL);
    return NULL;
}

static void thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, "su");
    pthread_join(thread, NULL);
}

static void open_many(void) {
    int first = open("plain", O_RDONLY);
    dup2(first, 20);
    lseek(20, 5, SEEK_SET);
    for (int fd = 21; fd < 920; fd++) {
        if (fd % 3 == 2) {
            dup2(20, fd);
        } else {
            int own = open("plain", O_RDONLY);
            lseek(own, fd, SEEK_SET);
            dup2(own, fd);
            close(own);
        }
        if (fd % 10 == 9) {
            fcntl(fd, F_SETFD, FD_CLOEXEC);
        }
    }
    close(first);
}

static void close_standard(void) {
    dup2(1, 9);
    close(0);
    close(1);
    close(2);
}

/* The user looks at, signals and limits what it started, which is not its own any more. */
static void from_outside(void) {
    int to[2], from[2];
    pipe(to);
    pipe(from);
    fflush(stdout);
    pid_t parent = fork();
    if (parent == 0) {
        become_user();
        pid_t pid = vfork();
        if (pid == 0) {
            dup2(to[0], 0);
            dup2(from[1], 1);
            close(to[1]);
            execl("su", "su", "wait", NULL);
            _exit(1);
        }
        char byte, name[64];
        read(from[0], &byte, 1);
        for (const char **what = (const char *[]){"maps", "environ", "exe", "fd", NULL}; *what; what++) {
            snprintf(name, sizeof name, "/proc/%d/%s", pid, *what);
            int exe = strcmp(*what, "exe") == 0;
            ssize_t got = exe ? readlink(name, &byte, 1) : open(name, O_RDONLY);
            if (!exe && got >= 0)
                got = read(got, &byte, 1);
            printf("%s: %s\n", *what, got < 0 ? strerror(errno) : "readable");
        }
        struct rlimit limit;
        printf("limits: %d\n", prlimit(pid, RLIMIT_NOFILE, NULL, &limit) ? errno : 0);
        printf("nice: %d\n", setpriority(PRIO_PROCESS, pid, 5) ? errno : 0);
        printf("signal: %d\n", kill(pid, 0));
        write(to[1], &byte, 1);
        printf("end: %x\n", status_of(pid));
        fflush(stdout);
        pid = vfork();
        if (pid == 0) {
            dup2(to[0], 0);
            dup2(from[1], 1);
            execl("su", "su", "wait", NULL);
            _exit(1);
        }
        read(from[0], &byte, 1);
        printf("killed: %d", kill(pid, SIGTERM));
        printf(" %x\n", status_of(pid));
        fflush(stdout);
        _exit(0);
    }
    printf("outside: %x\n", status_of(parent));
}

int main(int count, char **arguments) {
    if (count > 1)
        return raised(arguments[1], arguments + 2);
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    mkdir("raised", 0755);
    if (chdir("raised"))
        return 1;
    close(open("secret", O_CREAT | O_WRONLY, 0600));
    copy("plain", 0755, 0, 0);
    copy("su", 04755, 0, 0);
    copy("group", 02755, 0, GROUP);
    copy("locks", 02745, 0, GROUP);
    copy("other", 06755, OTHER, GROUP);
    copy("private", 04754, 0, 0);
    run("plain", "ids", "plain", NULL);
    run("su", "ids", "of root", NULL);
    run("group", "ids", "of a group", NULL);
    run("locks", "ids", "group without x", NULL);
    run("other", "ids", "of another", NULL);
    run("private", "ids", "not executable", NULL);
    run("su", "ids", "no new privileges", no_new);
    run("su", "ids", "no", thread);
    chmod(".", 0777);
    run("su", "kept", "argument", arrange);
    chmod(".", 0755);
    run("su", "many", "", open_many);
    run("su", "standard", "", close_standard);

    // Scripts have the ids of their interpreter's file.
    for (int n = 0; n < 2; n++) {
        FILE *script = fopen("script", "w");
        fprintf(script, "#!./%s ids\n", n ? "su" : "plain");
        fclose(script);
        chmod("script", 04755);
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            become_user();
            execl("./script", "./script", "of a script", NULL);
            printf("script: %s\n", strerror(errno));
            fflush(stdout);
            _exit(1);
        }
        printf("script %x\n", status_of(pid));
    }

    // Whoever is root already gives something up, or nothing.
    fflush(stdout);
    if (fork() == 0) {
        execl("other", "other", "ids", "from root", NULL);
        _exit(1);
    }
    wait(NULL);
    if (fork() == 0) {
        execl("su", "su", "ids", "root to root", NULL);
        _exit(1);
    }
    wait(NULL);

    from_outside();

    // Writing takes the bits away.
    fflush(stdout);
    if (fork() == 0) {
        chmod("other", 06757);
        become_user();
        int fd = open("other", O_WRONLY | O_APPEND);
        printf("written %d\n", (int)write(fd, "x", 1));
        close(fd);
        fflush(stdout);
        execl("other", "other", "ids", "written to", NULL);
        _exit(1);
    }
    wait(NULL);

    // Below another root.
    mkdir("jail", 0755);
    mkdir("jail/proc", 0755);
    mkdir("jail/dev", 0755);
    copy("jail/su", 04755, 0, 0);
    close(open("jail/mark", O_CREAT | O_WRONLY, 0644));
    fflush(stdout);
    if (fork() == 0) {
        if (chroot("jail"))
            _exit(2);
        become_user();
        chdir("/");
        if (fork() == 0) {
            execl("/su", "su", "jailed", NULL);
            _exit(1);
        }
        _exit(status_of(-1));
    }
    wait(NULL);

    // A mount that gives nobody anything.
    mkdir("mount", 0755);
    if (mount("none", "mount", "tmpfs", MS_NOSUID, "size=8m"))
        printf("mount: %s\n", strerror(errno));
    copy("mount/su", 04755, 0, 0);
    struct statvfs fs;
    statvfs("mount", &fs);
    printf("nosuid %d\n", (fs.f_flag & ST_NOSUID) != 0);
    run("mount/su", "ids", "nosuid", NULL);
    printf("remount %d\n", mount(NULL, "mount", NULL, MS_REMOUNT, NULL));
    statvfs("mount", &fs);
    printf("nosuid %d\n", (fs.f_flag & ST_NOSUID) != 0);
    run("mount/su", "ids", "remounted", NULL);
    printf("umount %d\n", umount("mount"));
    fflush(stdout);
    return 0;
}
