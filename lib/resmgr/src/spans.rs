//! Ranges with owners, to be asked which one is in the way: those of one kind of record lock in one file ([`Spans`]). Their nodes are in one table for all files ([`Nodes`]).
//!
//! They are a balanced tree (AVL) in order of their starts and owners. Each node knows how far its tree's ranges go, and how far those of all owners go but the one whose range goes farthest. So what is in an owner's
//! way is found from the root down, whatever the owner has there itself.

use crate::lock::Owner;
use cairn_slab::Records;

/// No node.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: u64,
    pub end: u64,
    pub owner: Owner,
}

/// How far ranges go.
#[derive(Clone, Copy)]
struct Reach {
    end: u64,
    owner: Owner,
    /// Those of all other owners.
    others: u64,
}

struct Node {
    span: Span,
    left: u32,
    right: u32,
    height: u8,
    /// Of this one and all below.
    reach: Reach,
}

#[derive(Default)]
pub(crate) struct Nodes(Records<Node>);

/// The root of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spans(u32);

impl Span {
    fn place(&self) -> (u64, Owner) {
        (self.start, self.owner)
    }
}

impl Reach {
    const NOTHING: Reach = Reach {
        end: 0,
        owner: Owner::Process(0),
        others: 0,
    };

    fn of(span: &Span) -> Reach {
        Reach {
            end: span.end,
            owner: span.owner,
            others: 0,
        }
    }

    fn with(self, other: Reach) -> Reach {
        let (far, near) = match self.end >= other.end {
            true => (self, other),
            false => (other, self),
        };
        let beside = match near.owner == far.owner {
            true => near.others,
            false => near.end,
        };
        Reach {
            others: far.others.max(beside),
            ..far
        }
    }

    /// How far those go that are not this owner's.
    fn beside(&self, owner: Owner) -> u64 {
        match self.owner == owner {
            true => self.others,
            false => self.end,
        }
    }
}

impl Default for Node {
    fn default() -> Node {
        Node {
            span: Span {
                start: 0,
                end: 0,
                owner: Owner::Process(0),
            },
            left: NONE,
            right: NONE,
            height: 1,
            reach: Reach::NOTHING,
        }
    }
}

impl Default for Spans {
    fn default() -> Spans {
        Spans(NONE)
    }
}

impl Nodes {
    /// See that the next so many [`Nodes::insert`] (a few) do not fail. False: there is no memory.
    pub fn reserve(&mut self, count: usize) -> bool {
        self.0.reserve_some(count)
    }

    /// False: there is no memory ([`Nodes::reserve`]).
    pub fn insert(&mut self, spans: &mut Spans, span: Span) -> bool {
        let Some(new) = self.0.take() else {
            return false;
        };
        self.0[new] = Node {
            span,
            reach: Reach::of(&span),
            ..Node::default()
        };
        spans.0 = self.put(spans.0, new);
        true
    }

    /// The range of this owner that begins here goes.
    pub fn remove(&mut self, spans: &mut Spans, start: u64, owner: Owner) {
        let (root, gone) = self.cut(spans.0, (start, owner));
        spans.0 = root;
        if gone != NONE {
            self.0.give(gone);
        }
    }

    /// The first one that has something of `start..end` and is not this owner's.
    pub fn in_the_way(&self, spans: Spans, start: u64, end: u64, owner: Owner) -> Option<Span> {
        let goes_beyond = |at: u32| self.reach(at).beside(owner) > start;
        let mut at = spans.0;
        while goes_beyond(at) {
            let node = &self.0[at];
            if goes_beyond(node.left) {
                at = node.left;
            } else if node.span.end > start && node.span.owner != owner {
                return (node.span.start < end).then_some(node.span);
            } else {
                at = node.right;
            }
        }
        None
    }

    fn reach(&self, at: u32) -> Reach {
        self.0.get(at).map_or(Reach::NOTHING, |node| node.reach)
    }

    fn height(&self, at: u32) -> u8 {
        self.0.get(at).map_or(0, |node| node.height)
    }

    /// Put node `new` into the tree `at` → the tree.
    fn put(&mut self, at: u32, new: u32) -> u32 {
        if at == NONE {
            return new;
        }
        if self.0[new].span.place() < self.0[at].span.place() {
            self.0[at].left = self.put(self.0[at].left, new);
        } else {
            self.0[at].right = self.put(self.0[at].right, new);
        }
        self.balance(at)
    }

    /// Take the node of this place out of the tree `at` → the tree, and the node, if it is there.
    fn cut(&mut self, at: u32, place: (u64, Owner)) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        let Node {
            span, left, right, ..
        } = self.0[at];
        let gone = if place < span.place() {
            let (tree, gone) = self.cut(left, place);
            self.0[at].left = tree;
            gone
        } else if place > span.place() {
            let (tree, gone) = self.cut(right, place);
            self.0[at].right = tree;
            gone
        } else if left == NONE || right == NONE {
            return (if left == NONE { right } else { left }, at);
        } else {
            // The next one takes its place.
            let (tree, next) = self.cut_first(right);
            (self.0[next].left, self.0[next].right) = (left, tree);
            return (self.balance(next), at);
        };
        (self.balance(at), gone)
    }

    /// Take the first node out of the tree `at`, which has some → the tree, and the node.
    fn cut_first(&mut self, at: u32) -> (u32, u32) {
        let left = self.0[at].left;
        if left == NONE {
            return (self.0[at].right, at);
        }
        let (tree, first) = self.cut_first(left);
        self.0[at].left = tree;
        (self.balance(at), first)
    }

    /// The trees below `at` are right, and their heights differ by two at most → the tree.
    fn balance(&mut self, at: u32) -> u32 {
        let (left, right) = (self.0[at].left, self.0[at].right);
        let (high, low) = (self.height(left), self.height(right));
        if high > low + 1 {
            if self.height(self.0[left].left) < self.height(self.0[left].right) {
                self.0[at].left = self.turn_left(left);
            }
            return self.turn_right(at);
        }
        if low > high + 1 {
            if self.height(self.0[right].right) < self.height(self.0[right].left) {
                self.0[at].right = self.turn_right(right);
            }
            return self.turn_left(at);
        }
        self.measure(at);
        at
    }

    /// The left one goes up.
    fn turn_right(&mut self, at: u32) -> u32 {
        let up = self.0[at].left;
        self.0[at].left = core::mem::replace(&mut self.0[up].right, at);
        self.measure(at);
        self.measure(up);
        up
    }

    fn turn_left(&mut self, at: u32) -> u32 {
        let up = self.0[at].right;
        self.0[at].right = core::mem::replace(&mut self.0[up].left, at);
        self.measure(at);
        self.measure(up);
        up
    }

    fn measure(&mut self, at: u32) {
        let Node {
            span, left, right, ..
        } = self.0[at];
        let height = 1 + self.height(left).max(self.height(right));
        let below = self.reach(left).with(self.reach(right));
        let node = &mut self.0[at];
        (node.height, node.reach) = (height, Reach::of(&span).with(below));
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn agrees_with_a_list() {
        let mut random = 17u64;
        let mut next = |most: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % most
        };
        let (mut nodes, mut spans) = (Nodes::default(), Spans::default());
        let mut list = Vec::<Span>::new();
        for step in 0..20_000 {
            if next(if step / 2000 % 2 == 0 { 3 } else { 8 }) != 0 {
                let start = next(500);
                let length = [300, 9][(next(50) != 0) as usize];
                let span = Span {
                    start,
                    end: start + 1 + next(length),
                    owner: Owner::Process(next(40) as u32),
                };
                if !list
                    .iter()
                    .any(|o| (o.start, o.owner) == (span.start, span.owner))
                {
                    assert!(nodes.insert(&mut spans, span));
                    list.push(span);
                }
            } else if !list.is_empty() {
                let gone = list.swap_remove(next(list.len() as u64) as usize);
                nodes.remove(&mut spans, gone.start, gone.owner);
            }
            let (start, owner) = (next(500), Owner::Process(next(40) as u32));
            let end = start + 1 + next(30);
            let found = list
                .iter()
                .filter(|s| s.start < end && start < s.end && s.owner != owner)
                .min_by_key(|span| (span.start, span.owner));
            assert_eq!(nodes.in_the_way(spans, start, end, owner), found.copied());
        }
        for span in list {
            nodes.remove(&mut spans, span.start, span.owner);
        }
        assert!(nodes.is_empty() && spans == Spans::default());
    }

    /// How high the tree is, if all that it knows of itself is true.
    fn sound(nodes: &Nodes, at: u32) -> u8 {
        let Some(node) = nodes.0.get(at).filter(|_| at != NONE) else {
            return 0;
        };
        let (left, right) = (sound(nodes, node.left), sound(nodes, node.right));
        assert!(left.abs_diff(right) <= 1);
        assert_eq!(node.height, 1 + left.max(right));
        node.height
    }

    /// However many there are, and however many are the asker's own, few are looked at.
    #[test]
    fn the_tree_is_low() {
        let (mut nodes, mut spans) = (Nodes::default(), Spans::default());
        let span = |i: u64| Span {
            start: 10 * i,
            end: 10 * i + 10,
            owner: Owner::Process((i % 2) as u32),
        };
        for i in 0..10_000 {
            assert!(nodes.insert(&mut spans, span(i)));
        }
        assert!(sound(&nodes, spans.0) <= 16);
        let found = nodes.in_the_way(spans, 50_000, u64::MAX, Owner::Process(0));
        assert_eq!(found, Some(span(5001)));
        for i in (0..10_000).filter(|i| i % 3 != 0) {
            let gone = span(i);
            nodes.remove(&mut spans, gone.start, gone.owner);
            nodes.remove(&mut spans, gone.start, Owner::File(7));
        }
        assert!(sound(&nodes, spans.0) <= 16);
        let found = nodes.in_the_way(spans, 50_000, u64::MAX, Owner::Process(0));
        assert_eq!(found, Some(span(5001)));
    }
}
