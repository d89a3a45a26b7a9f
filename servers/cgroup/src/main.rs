//! The component: what mount(2) starts for `cgroup2`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_cgroup::{Cgroup, Groups, Times, Usage};
use cairn_idl::errno::{EINVAL, EIO};
use cairn_idl::proc::{self, CgroupLimit};
use cairn_idl::wire::Failure;
use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native};
use cairn_rt::{startup, Portal};

cairn_rt::entry!(main);

/// `proc`.
struct Proc(Portal);

impl Proc {
    fn set(&mut self, group: u32, what: CgroupLimit, value: u64) -> Result<(), i64> {
        let client = proc::Client(&self.0);
        client
            .cgroup_set(group.into(), what.word(), value)
            .map_err(|failure| failure.errno())
    }
}

fn number(value: Result<u64, Failure>) -> Result<u32, i64> {
    let value = value.map_err(|failure| failure.errno())?;
    u32::try_from(value).map_err(|_| EIO)
}

impl Groups for Proc {
    fn make(&mut self, above: u32, name: &[u8]) -> Result<u32, i64> {
        number(proc::Client(&self.0).cgroup_make(above.into(), name))
    }

    fn remove(&mut self, group: u32) -> Result<(), i64> {
        let client = proc::Client(&self.0);
        client
            .cgroup_remove(group.into())
            .map_err(|failure| failure.errno())
    }

    fn relocate(&mut self, pid: u64, leaves: u32, enters: u32) -> Result<(), i64> {
        let client = proc::Client(&self.0);
        client
            .cgroup_move(pid, leaves.into(), enters.into())
            .map_err(|failure| failure.errno())
    }

    fn limit_tasks(&mut self, group: u32, most: Option<u64>) -> Result<(), i64> {
        self.set(group, CgroupLimit::Tasks, most.unwrap_or(u64::MAX))
    }

    fn limit_pages(&mut self, group: u32, most: Option<u64>) -> Result<(), i64> {
        self.set(group, CgroupLimit::Pages, most.unwrap_or(u64::MAX))
    }

    fn ends_together(&mut self, group: u32, together: bool) -> Result<(), i64> {
        self.set(group, CgroupLimit::Together, together.into())
    }

    fn freeze(&mut self, group: u32, frozen: bool) -> Result<(), i64> {
        self.set(group, CgroupLimit::Frozen, frozen.into())
    }

    fn limit_time(&mut self, group: u32, quota: Option<u64>, period: u64) -> Result<(), i64> {
        let none = u64::from(u32::MAX);
        let value = quota.unwrap_or(none).min(none) | period << 32;
        self.set(group, CgroupLimit::Quota, value)
    }

    fn prefer(&mut self, group: u32, nice: i64) -> Result<(), i64> {
        self.set(group, CgroupLimit::Nice, nice as u64)
    }

    fn slow_beyond(&mut self, group: u32, pages: Option<u64>) -> Result<(), i64> {
        self.set(group, CgroupLimit::High, pages.unwrap_or(u64::MAX))
    }

    fn times(&mut self, group: u32) -> Result<Times, i64> {
        let client = proc::Client(&self.0);
        let it = client
            .cgroup_cpu(group.into())
            .map_err(|failure| failure.errno())?;
        Ok(Times {
            used: it.used,
            periods: it.periods,
            throttled: it.throttled,
            waited: it.waited,
            frozen: it.frozen != 0,
            slowed: it.slowed,
            peak: it.peak,
        })
    }

    fn usage(&mut self, group: u32) -> Result<Usage, i64> {
        let client = proc::Client(&self.0);
        let it = client
            .cgroup_stat(group.into())
            .map_err(|failure| failure.errno())?;
        Ok(Usage {
            tasks: it.tasks & 0xffff_ffff,
            populated: it.tasks >> 32,
            refused: it.refused,
            held: it.held,
            charged: it.charged,
            records: it.records,
            full: it.full,
            oom: it.ended >> 32,
            ended: it.ended & 0xffff_ffff,
        })
    }

    fn pids(&mut self, group: u32, after: u32, into: &mut [u8]) -> Result<usize, i64> {
        let client = proc::Client(&self.0);
        let count = number(client.cgroup_pids(group.into(), after.into(), into))?;
        Ok(count as usize * 4)
    }

    fn kill(&mut self, group: u32) -> Result<(), i64> {
        let client = proc::Client(&self.0);
        client
            .cgroup_kill(group.into())
            .map_err(|failure| failure.errno())
    }

    fn of(&mut self, pid: u64) -> Result<u32, i64> {
        number(proc::Client(&self.0).cgroup_of(pid))
    }

    fn pid(&mut self, domain: u32) -> Result<u64, i64> {
        let client = proc::Client(&self.0);
        let ids = client
            .ids_of(domain, 0, &mut [])
            .map_err(|failure| failure.errno())?;
        Ok(ids.pid)
    }
}

fn end() {
    cairn_rt::start::end(0)
}

fn main() -> ! {
    // None of Linux's mount options is here.
    if !startup::argument("options").unwrap_or("").is_empty() {
        cairn_rt::start::exit(EINVAL as u64)
    }
    let Some(proc) = startup::portal("proc") else {
        cairn_rt::start::exit(EIO as u64)
    };
    let mut cgroup = Cgroup::new(Proc(proc));
    cgroup.end = Some(end);
    cgroup.device = startup::argument("st_dev")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    if let Some(ready) = startup::portal("ready") {
        // If `init` cannot be told it hears of the end.
        let _ = ready.notify(1);
    }
    let prefix = startup::argument("prefix").map_or(&b""[..], str::as_bytes);
    serve(&mut Manager::new(prefix), &mut cgroup, &mut Native::new())
}
