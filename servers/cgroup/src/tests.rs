//! What is written to files, and a tree against groups that only count.

use crate::files::{MEMORY, PIDS};
use crate::text::{bandwidth, controls, nice, nice_of, one, size, tasks, weight, weight_of};
use cairn_idl::errno::{EINVAL, ERANGE};

#[test]
fn what_is_written_is_understood_or_refused() {
    assert_eq!(size("max\n"), Ok(None));
    assert_eq!(size("32M"), Ok(Some(8192)));
    assert_eq!(size(" 4097 "), Ok(Some(1)));
    assert_eq!(size("0"), Ok(Some(0)));
    for wrong in ["", "-1", "1X", "M", "99999999999999999999", "17179869184G"] {
        assert_eq!(size(wrong), Err(EINVAL), "{wrong}");
    }
    assert_eq!(tasks("max"), Ok(None));
    assert_eq!(tasks("10\n"), Ok(Some(10)));
    assert_eq!((tasks("-1"), tasks("4194304")), (Err(EINVAL), Err(EINVAL)));
    assert_eq!(
        (one("1"), one("2"), one("x")),
        (Ok(()), Err(ERANGE), Err(EINVAL))
    );
    assert_eq!(controls("+memory -pids"), Ok((MEMORY, PIDS)));
    assert_eq!(controls("+memory -memory\n"), Ok((0, MEMORY)));
    assert_eq!(
        (controls("+io"), controls("memory")),
        (Err(EINVAL), Err(EINVAL))
    );
}

#[test]
fn limits_of_processor_time_are_understood_or_refused() {
    assert_eq!(bandwidth("max\n", 7000), Ok((None, 7000)));
    assert_eq!(bandwidth("20000 100000", 1), Ok((Some(20_000), 100_000)));
    assert_eq!(bandwidth("5000", 50_000), Ok((Some(5000), 50_000)));
    for wrong in [
        "",
        "x",
        "999",
        "20000 999",
        "20000 1000001",
        "1 2 3",
        "max max",
        "-5",
        "4294967295",
    ] {
        assert_eq!(bandwidth(wrong, 100_000), Err(EINVAL), "{wrong}");
    }
    assert_eq!(
        (weight("1"), weight("10000"), weight("0")),
        (Ok(1), Ok(10_000), Err(ERANGE))
    );
    assert_eq!(
        (nice("-20"), nice("20"), nice("x")),
        (Ok(-20), Err(ERANGE), Err(EINVAL))
    );
    for value in -20..13 {
        assert_eq!(nice_of(weight_of(value)), value);
    }
    assert_eq!(
        (weight_of(0), nice_of(100), weight_of(19), nice_of(10_000)),
        (100, 0, 1, -20)
    );
}
