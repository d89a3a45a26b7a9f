//! What of an interface can be written: its files `mtu` and `flags` in /sys/class/net, to which `sysfs` redirects who opens them for writing.
//!
//! Whoever opens one passes the file's mode (0644, user 0); each write needs CAP_NET_ADMIN (EPERM), as on Linux.

use crate::interface::{flag, Interface};
use crate::server::{fail, Net, Node};
use alloc::format;
use alloc::string::String;
use cairn_idl::capability::NET_ADMIN;
use cairn_idl::errno::*;
use cairn_resmgr::server::Answer;
use cairn_resmgr::written::number;
use cairn_resmgr::{Context, Data, Failure};

/// Most bytes of a text that is written.
const TEXT: usize = 64;
/// What sysfs shows of [`flag`]: RUNNING and the bits behind the sixteenth are told by others.
const SHOWN: u32 = 0xffff & !flag::RUNNING;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    Mtu,
    Flags,
}

impl Setting {
    pub fn name(self) -> &'static str {
        match self {
            Setting::Mtu => "mtu",
            Setting::Flags => "flags",
        }
    }

    fn text(self, of: &Interface) -> String {
        match self {
            Setting::Mtu => format!("{}\n", of.mtu),
            Setting::Flags => format!("{:#x}\n", of.flags & SHOWN),
        }
    }
}

impl Net {
    /// `mtu@7` in the mount's root.
    pub(crate) fn setting_named(&self, name: &[u8]) -> Option<Node> {
        let (name, number) = core::str::from_utf8(name).ok()?.split_once('@')?;
        let mut all = [Setting::Mtu, Setting::Flags].into_iter();
        let setting = all.find(|setting| setting.name() == name)?;
        let interface = self.interfaces.get(number.parse().ok()?)?;
        Some(Node::Setting(interface.number, setting))
    }

    /// Its path: `mtu@7` as programs name it.
    pub(crate) fn setting_path(&self, number: u32, setting: Setting) -> Option<String> {
        let interface = self.interfaces.get(number)?;
        let name = core::str::from_utf8(&interface.name).ok()?;
        Some(format!("/sys/class/net/{name}/{}", setting.name()))
    }

    pub(crate) fn read_setting(
        &mut self,
        (number, setting): (u32, Setting),
        offset: u64,
        length: usize,
    ) -> Answer<Data<'_>> {
        let interface = self.interfaces.get(number);
        let interface = interface.ok_or(Failure::Errno(ENODEV))?;
        self.scratch = setting.text(interface).into_bytes();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.scratch.get(start..).unwrap_or(&[]);
        Ok(rest[..rest.len().min(length)].into())
    }

    pub(crate) fn write_setting(
        &mut self,
        cx: &mut Context,
        (interface, setting): (u32, Setting),
        length: usize,
    ) -> Answer<usize> {
        if self.interfaces.get(interface).is_none() {
            return fail(ENODEV);
        }
        if !self.has_capability(cx, NET_ADMIN) {
            return fail(EPERM);
        }
        let mut text = [0; TEXT];
        let Some(text) = text.get_mut(..length) else {
            return fail(EINVAL);
        };
        if length == 0 {
            return Ok(0);
        }
        cx.fetch(0, text)?;
        let value = number(text).map_err(Failure::Errno)?;
        match setting {
            Setting::Mtu => {
                let mtu = u32::try_from(value).map_err(|_| Failure::Errno(EINVAL))?;
                self.now(cx);
                self.set_mtu(cx, interface, mtu).map_err(Failure::Errno)?;
            }
            // (Of flags only this one can be changed, as by SIOCSIFFLAGS.)
            Setting::Flags => {
                self.now(cx);
                self.set_up(cx, interface, value & u64::from(flag::UP) != 0);
            }
        }
        self.alarm(cx);
        Ok(length)
    }
}
