//! Times as FAT keeps them (a date, a time of day, no zone: UTC is meant), and as everybody else does.

use core::sync::atomic::{AtomicU64, Ordering};
use fatfs::{Date, DateTime, Time, TimeProvider};

/// FAT's years.
const FIRST: i64 = 315_532_800;
const LAST: i64 = 4_354_819_199;
const DAY: i64 = 86_400;

/// What the library takes for now: the time of the request at hand, seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Clock;

static NOW: AtomicU64 = AtomicU64::new(0);

impl Clock {
    pub fn set(self, seconds: u64) {
        NOW.store(seconds, Ordering::Relaxed);
    }

    pub fn now(self) -> i64 {
        NOW.load(Ordering::Relaxed) as i64
    }
}

impl TimeProvider for Clock {
    fn get_current_date(&self) -> Date {
        date_time(self.now()).date
    }

    fn get_current_date_time(&self) -> DateTime {
        date_time(self.now())
    }
}

/// Seconds since 1970. (Days by Hinnant's formula, years beginning with March.)
pub fn seconds(at: DateTime) -> i64 {
    let (month, day) = (i64::from(at.date.month), i64::from(at.date.day));
    let year = i64::from(at.date.year) - i64::from(month <= 2);
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let (hour, min) = (i64::from(at.time.hour), i64::from(at.time.min));
    days * DAY + hour * 3600 + min * 60 + i64::from(at.time.sec)
}

/// The nearest time that FAT can say.
pub fn date_time(seconds: i64) -> DateTime {
    let seconds = seconds.clamp(FIRST, LAST);
    let (days, rest) = (seconds / DAY + 719_468, seconds % DAY);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = (from_march + 2) % 12 + 1;
    DateTime::new(
        Date::new(
            (era * 400 + year + i64::from(month <= 2)) as u16,
            month as u16,
            (of_year - (153 * from_march + 2) / 5 + 1) as u16,
        ),
        Time::new(
            (rest / 3600) as u16,
            (rest / 60 % 60) as u16,
            (rest % 60) as u16,
            0,
        ),
    )
}

/// What is left of a time when it has been on a disk: two seconds are one.
pub fn kept(time: i64) -> i64 {
    seconds(date_time(time)) & !1
}
