//! What is written to files, and a tree against groups that only count.

use crate::files::{MEMORY, PIDS};
use crate::text::{controls, one, size, tasks};
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
        (controls("+cpu"), controls("memory")),
        (Err(EINVAL), Err(EINVAL))
    );
}
