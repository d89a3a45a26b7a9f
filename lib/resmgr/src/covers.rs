//! What is mounted on the folders and files of one mount ([`crate::private`]): of several on one node the last one is seen, and the one before it when that
//! goes.

use alloc::vec::Vec;
use cairn_rt::Portal;

/// Something is mounted on a node.
pub(crate) struct Cover<N> {
    pub node: N,
    pub number: u32,
    /// None: it is a place that is to be filled.
    pub portal: Option<Portal>,
    /// It was there before the mount.
    pub stays: bool,
}

/// In order of their nodes; those of one node in the order in which they came.
pub(crate) struct Covers<N>(Vec<Cover<N>>);

impl<N> Default for Covers<N> {
    fn default() -> Self {
        Covers(Vec::new())
    }
}

impl<N: Copy + Ord> Covers<N> {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn reserve(&mut self, more: usize) -> bool {
        self.0.try_reserve(more).is_ok()
    }

    /// Where the next one of this node would be.
    fn end(&self, node: &N) -> usize {
        self.0.partition_point(|cover| cover.node <= *node)
    }

    fn top(&self, node: &N) -> Option<usize> {
        let last = self.end(node).checked_sub(1)?;
        (self.0[last].node == *node).then_some(last)
    }

    /// What is seen on a node.
    pub fn on(&self, node: &N) -> Option<&Cover<N>> {
        self.top(node).map(|at| &self.0[at])
    }

    /// What a mount with this number on the node stands in the place of: itself, or a place that is to be filled.
    pub fn place(&mut self, node: &N, number: u32) -> Option<&mut Cover<N>> {
        let at = match self.numbered(node, number) {
            Some(at) => at,
            None => self.top(node).filter(|at| self.0[*at].portal.is_none())?,
        };
        Some(&mut self.0[at])
    }

    fn numbered(&self, node: &N, number: u32) -> Option<usize> {
        let end = self.end(node);
        let its = self.0[..end].iter().rev();
        let mut its = its.take_while(|cover| cover.node == *node);
        let before = its.position(|cover| cover.number == number)?;
        Some(end - 1 - before)
    }

    /// The one with this number on the node; 0: the one that is seen.
    pub fn find(&self, node: &N, number: u32) -> Option<usize> {
        match number {
            0 => self.top(node),
            number => self.numbered(node, number),
        }
    }

    pub fn at(&self, at: usize) -> &Cover<N> {
        &self.0[at]
    }

    pub fn remove(&mut self, at: usize) -> Cover<N> {
        self.0.remove(at)
    }

    /// On top of all others of its node. There is room.
    pub fn push(&mut self, cover: Cover<N>) {
        let at = self.end(&cover.node);
        self.0.insert(at, cover);
    }

    /// What is seen, of all nodes.
    pub fn seen(&self) -> impl Iterator<Item = &Cover<N>> {
        let alike = self.0.chunk_by(|one, next| one.node == next.node);
        alike.filter_map(|covers| covers.last())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Cover<N>> {
        self.0.iter()
    }

    pub fn all(self) -> impl Iterator<Item = Cover<N>> {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_is_seen_until_it_goes() {
        let mut covers = Covers::default();
        assert!(covers.reserve(5));
        for (node, number) in [(7, 1), (3, 2), (7, 3), (9, 4), (7, 5)] {
            covers.push(Cover {
                node,
                number,
                portal: Some(Portal(number)),
                stays: false,
            });
        }
        let seen = |covers: &Covers<u32>| -> Vec<u32> { covers.seen().map(|c| c.number).collect() };
        assert_eq!(seen(&covers), [2, 5, 4]);
        assert!(covers.on(&8).is_none() && covers.find(&3, 5).is_none());
        // From the middle, and the one that is seen.
        let at = covers.find(&7, 3).unwrap();
        assert_eq!(covers.remove(at).number, 3);
        let at = covers.find(&7, 0).unwrap();
        assert_eq!(covers.remove(at).number, 5);
        assert_eq!(covers.on(&7).unwrap().number, 1);
        // A place is filled by whoever comes, another one only by itself.
        assert!(covers.place(&7, 8).is_none() && covers.place(&7, 1).is_some());
        covers.place(&7, 1).unwrap().portal = None;
        assert_eq!(covers.place(&7, 8).unwrap().number, 1);
        assert_eq!(seen(&covers), [2, 1, 4]);
    }
}
