//! Linux's names and their numbers on x86-64, as far as scripts use them.

macro_rules! errnos {
    ($($name:ident $number:literal)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Errno(pub i64);

        impl Errno {
            $(pub const $name: Errno = Errno($number);)*

            pub fn name(self) -> &'static str {
                let found = ERRNOS.iter().find(|(_, number)| *number == self.0);
                found.map_or("?", |(name, _)| name)
            }
        }

        const ERRNOS: &[(&str, i64)] = &[$((stringify!($name), $number)),*];
    };
}

errnos! {
    EIO 5 EBADF 9 EAGAIN 11 EINVAL 22 EPIPE 32 ENOPROTOOPT 92 EOPNOTSUPP 95 EADDRINUSE 98 ENETUNREACH 101
    ECONNABORTED 103 ECONNRESET 104 EISCONN 106 ENOTCONN 107 ETIMEDOUT 110 ECONNREFUSED 111 EHOSTUNREACH 113 EALREADY 114 EINPROGRESS 115
}

const NUMBERS: &[(&str, i64)] = &[
    ("NULL", 0),
    ("AF_INET", 2),
    ("AF_INET6", 10),
    ("SOCK_STREAM", 1),
    ("SOCK_NONBLOCK", 0x800),
    ("SOCK_CLOEXEC", 0x80000),
    ("IPPROTO_IP", 0),
    ("IPPROTO_TCP", 6),
    ("O_RDONLY", 0),
    ("O_WRONLY", 1),
    ("O_RDWR", 2),
    ("O_NONBLOCK", 0x800),
    ("F_GETFL", 3),
    ("F_SETFL", 4),
    ("SHUT_RD", 0),
    ("SHUT_WR", 1),
    ("SHUT_RDWR", 2),
    ("MSG_OOB", 1),
    ("MSG_PEEK", 2),
    ("MSG_TRUNC", 0x20),
    ("MSG_DONTWAIT", 0x40),
    ("MSG_WAITALL", 0x100),
    ("MSG_NOSIGNAL", 0x4000),
    ("MSG_MORE", 0x8000),
    ("MSG_FASTOPEN", 0x2000_0000),
    ("POLLIN", 1),
    ("POLLPRI", 2),
    ("POLLOUT", 4),
    ("POLLERR", 8),
    ("POLLHUP", 16),
    ("POLLNVAL", 32),
    ("POLLRDHUP", 0x2000),
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
];

/// The number of a name, or of several with `|` between them.
pub fn number(name: &str) -> Option<i64> {
    let one = |name: &str| {
        NUMBERS
            .iter()
            .chain(ERRNOS)
            .find(|(known, _)| *known == name)
            .map(|(_, number)| *number)
    };
    name.split('|')
        .try_fold(0, |sum, name| Some(sum | one(name)?))
}
