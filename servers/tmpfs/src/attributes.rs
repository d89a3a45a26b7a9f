//! Extended attributes of a node, in the order of their names. Each is charged to who set it. (What other users' programs may do with them is checked by the framework.)

use crate::pool::Memory;
use crate::server::{charge, fail, now, Tmpfs};
use alloc::vec::Vec;
use cairn_idl::capability;
use cairn_idl::errno::*;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};

/// All names of a node, each with a NUL: as many as listxattr(2) can tell.
const NAMES_MAX: usize = 64 * 1024;

struct Attribute {
    name: Vec<u8>,
    value: Vec<u8>,
    payer: u32,
}

impl Attribute {
    /// Bytes that are charged for it.
    fn cost(&self) -> usize {
        cost(&self.name, &self.value)
    }
}

fn cost(name: &[u8], value: &[u8]) -> usize {
    size_of::<Attribute>() + name.len() + value.len()
}

/// Those of one node.
#[derive(Default)]
pub struct Attributes {
    list: Vec<Attribute>,
    /// Bytes of all names with their NULs.
    names: usize,
    /// The one that gives capabilities is among them.
    pub raises: bool,
    /// A write has more to look at than memory: that, or seals.
    pub asks: bool,
    /// Of the node: [`cairn_resmgr::server::file_flags`].
    pub flags: u32,
}

impl Attributes {
    pub const NONE: Attributes = Attributes {
        list: Vec::new(),
        names: 0,
        raises: false,
        asks: false,
        flags: 0,
    };

    fn find(&self, name: &[u8]) -> Result<usize, usize> {
        self.list
            .binary_search_by(|attribute| attribute.name.as_slice().cmp(name))
    }

    /// They go: what each user gets back.
    pub fn refund(self, cx: &mut Context) {
        for attribute in self.list {
            cx.refund(attribute.payer, attribute.cost());
        }
    }

    #[cfg(test)]
    pub fn cost_of(&self, uid: u32) -> usize {
        let own = self.list.iter().filter(|attribute| attribute.payer == uid);
        own.map(Attribute::cost).sum()
    }
}

fn copy(bytes: &[u8]) -> Answer<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len())
        .map_err(|_| Failure::Errno(ENOSPC))?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

impl<M: Memory> Tmpfs<M> {
    pub(crate) fn read_attribute(&self, node: u32, name: &[u8]) -> Answer<&[u8]> {
        let attributes = &self.inode(node)?.attributes;
        match attributes.find(name) {
            Ok(at) => Ok(&attributes.list[at].value),
            Err(_) => fail(ENODATA),
        }
    }

    pub(crate) fn list_attributes(&self, node: u32, names: &mut Vec<u8>) -> Answer<()> {
        let attributes = &self.inode(node)?.attributes;
        names
            .try_reserve(attributes.names)
            .map_err(|_| Failure::Errno(ENOMEM))?;
        for attribute in &attributes.list {
            names.extend_from_slice(&attribute.name);
            names.push(0);
        }
        Ok(())
    }

    /// Everything is there before the first thing changes.
    pub(crate) fn write_attribute(
        &mut self,
        cx: &mut Context,
        node: u32,
        name: &[u8],
        value: Option<&[u8]>,
        there: Option<bool>,
    ) -> Answer<()> {
        let known = self.inode(node)?.attributes.find(name);
        match (known, there) {
            (Err(_), Some(true)) => return fail(ENODATA),
            (Ok(_), Some(false)) => return fail(EEXIST),
            (Err(_), _) if value.is_none() => return fail(ENODATA),
            _ => {}
        }
        let now = now(cx);
        let new = match value {
            Some(value) => Some(Attribute {
                name: copy(name)?,
                value: copy(value)?,
                payer: cx.payer(),
            }),
            None => None,
        };
        let inode = self.inodes.get_mut(node).ok_or(Failure::Errno(EIO))?;
        let (attributes, pool) = (&mut inode.attributes, &mut self.pool);
        let old = match (known, new) {
            (Ok(at), Some(new)) => {
                charge(pool, cx, new.cost())?;
                Some(core::mem::replace(&mut attributes.list[at], new))
            }
            (Ok(at), None) => {
                attributes.names -= name.len() + 1;
                Some(attributes.list.remove(at))
            }
            (Err(at), Some(new)) => {
                if attributes.names + name.len() + 1 > NAMES_MAX
                    || attributes.list.try_reserve(1).is_err()
                {
                    return fail(ENOSPC);
                }
                charge(pool, cx, new.cost())?;
                attributes.names += name.len() + 1;
                attributes.list.insert(at, new);
                None
            }
            (Err(_), None) => None,
        };
        if attributes.list.is_empty() {
            attributes.list = Vec::new();
        }
        if name == capability::ATTRIBUTE {
            attributes.raises = value.is_some();
            attributes.asks |= attributes.raises;
        }
        inode.ctime = now;
        if let Some(old) = old {
            cx.refund(old.payer, old.cost());
        }
        Ok(())
    }

    /// Who changes a file's data or owner takes its capabilities away.
    #[cold]
    pub(crate) fn drop_capabilities(&mut self, cx: &mut Context, node: u32) {
        // Where there are none nothing is done.
        let _ = self.write_attribute(cx, node, capability::ATTRIBUTE, None, None);
    }
}
