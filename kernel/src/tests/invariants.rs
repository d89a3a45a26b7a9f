//! What must hold after every entry, checked by counting everything again.

use crate::arch::sim::Sim;
use crate::dispatch::Dispatch;
use crate::frames::FrameKind;
use crate::partition::ASIDE;
use crate::pool::{ChannelRef, Handle, SemaphoreRef, ThreadRef, INDEX_MASK};
use crate::portal::table::Target;
use crate::queue::List;
use crate::quick::SIGNED;
use crate::revoke;
use crate::thread::{Sending, State};
use crate::Kernel;
use cairn_abi::service::scheduler;
use cairn_abi::PortalKind;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

fn walk(k: &Kernel<Sim>, list: &List) -> Vec<ThreadRef> {
    let mut found = Vec::new();
    let mut previous = None;
    let mut next = list.first();
    while let Some(t) = next {
        assert_eq!(k.threads[t].link.previous, previous, "links of {t:?}");
        assert!(found.len() < 10_000, "a ring");
        found.push(t);
        previous = Some(t);
        next = k.threads[t].link.next;
    }
    found
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Place {
    Ready,
    Stopped,
    Sending(ChannelRef),
    Held(ChannelRef),
    Receiving(ChannelRef),
    Waiting(SemaphoreRef),
}

pub fn check(k: &Kernel<Sim>) {
    let places = places(k);
    threads(k, &places);
    channels(k);
    semaphores(k);
    if k.unrefreshed[0] == 0 {
        priorities(k);
    }
    timers(k);
    plain(k);
    holders(k);
    frames(k);
    windows(k);
    dispatch(k);
    partitions(k);
    interrupts(k);
    ways(k);
}

/// What the machine layer knows of sources that it may serve by itself is true as long as it knows it.
fn ways(k: &Kernel<Sim>) {
    for (&source, way) in &k.arch.ways {
        assert_eq!(
            k.interrupts.only_one(source as usize),
            Some(way.binding_index),
            "source {source}"
        );
        let binding = &k.interrupts.bindings[way.binding_index as usize];
        let named = binding.channel ^ way.plain as u32;
        assert!(named == 0 || named == SIGNED);
        assert_eq!((binding.badge, binding.handler), (way.badge, 0));
        assert!(!binding.by_semaphore());
        let Some(c) = k.channels.at_address(way.channel) else {
            panic!("no channel there");
        };
        if k.channels[c].plain == way.plain {
            let driver = k.channels[c].receivers.first();
            assert_eq!(driver.map(Handle::number), Some(way.driver_index));
            let d = driver.map(|t| k.threads[t].domain).expect("a domain");
            assert_eq!(d.number(), way.domain_index);
            assert_eq!(driver.map(|t| k.threads.address(t)), Some(way.driver));
            assert_eq!(k.domains.address(d), way.domain);
        }
    }
}

/// Members are those that their partition's list has; one that is not chosen is aside, and one that is aside could run; whoever is chosen runs, waits in the
/// ready queue, or shows as a
/// floor where it ran.
fn partitions(k: &Kernel<Sim>) {
    let mut members = BTreeSet::new();
    for (index, partition) in k.partitions.iter().enumerate() {
        let number = index as u8 + 1;
        let mut previous = None;
        let mut next = partition.first;
        while let Some(t) = next {
            let thread = &k.threads[t];
            assert_eq!(
                (thread.partition, thread.members.previous),
                (number, previous)
            );
            assert!(members.insert(t));
            assert_ne!(thread.state, State::Dead);
            let chosen = partition.chosen == Some(t);
            assert_eq!(thread.stops & ASIDE == 0, chosen);
            if thread.state == State::Aside {
                assert!(!chosen);
                assert_eq!(
                    u64::from(thread.standing),
                    scheduler::READY,
                    "{t:?} is not told of"
                );
            }
            assert!(!chosen || thread.base <= thread.assigned);
            previous = next;
            next = thread.members.next;
        }
        assert!(partition.chosen.is_none_or(|t| members.contains(&t)));
        assert_eq!(partition.channel.is_some(), partition.first.is_some());
        if let Some(c) = partition.channel {
            assert_eq!(k.channels[c].partition, number);
        }
        assert!(partition.due == 0 || k.watch_end <= partition.due);
        let Some((_, core)) = cores(k).nth(partition.core as usize) else {
            panic!("no such core");
        };
        if partition.chosen.is_some() {
            assert!(partition.floor >= 0);
            assert!(core.ready.top() >= partition.floor || told(k, partition.core as usize));
            if let (Some(current), false) = (core.current, told(k, partition.core as usize)) {
                assert!(k.threads[current].effective as i16 >= partition.floor);
            }
            assert!(
                core.current.is_some() || told(k, partition.core as usize),
                "nobody is told"
            );
        }
    }
    for t in k.threads.all() {
        let thread = &k.threads[t];
        assert_eq!(thread.partition != 0, members.contains(&t));
        assert!(thread.partition != 0 || thread.stops & ASIDE == 0 && thread.state != State::Aside);
        if let Some(c) = thread.news.channel {
            let gone = u64::from(thread.standing) == scheduler::GONE;
            assert!(gone || k.partitions[thread.partition as usize - 1].channel == Some(c));
        }
    }
    for c in k.channels.all() {
        let number = k.channels[c].partition as usize;
        assert!(number == 0 || k.partitions[number - 1].channel == Some(c));
    }
}

/// A source knows how many owe it an acknowledgement, only those who are bound do, and it is unmasked exactly when somebody is bound and nobody owes.
fn interrupts(k: &Kernel<Sim>) {
    for (source, object) in k.interrupts.sources.iter().enumerate() {
        let bindings: Vec<_> = k
            .interrupts
            .of(source)
            .map(|index| &k.interrupts.bindings[index as usize])
            .collect();
        assert!(bindings
            .iter()
            .all(|b| b.holders != 0 && b.source as usize == source));
        assert!(bindings.iter().all(|b| !b.owes || b.is_bound()));
        let owed = bindings.iter().filter(|b| b.owes).count();
        assert_eq!(object.owed as usize, owed, "source {source}");
        let bound = bindings.iter().any(|b| b.is_bound());
        let open = k.arch.unmasked.contains(&(source as u32));
        assert_eq!(open, bound && owed == 0, "source {source}");
    }
    for (index, handler) in k.handlers.iter().enumerate() {
        if handler.is_deferred_at(k.cores.here) {
            assert!(k.must_wait(index), "handler {index} waits for nothing");
        }
    }
}

/// Where every linked thread is linked.
fn places(k: &Kernel<Sim>) -> BTreeMap<ThreadRef, Place> {
    let mut places = BTreeMap::new();
    let mut put = |t, place| {
        let before = places.insert(t, place);
        assert_eq!(before, None, "{t:?} is in two queues");
    };
    for (number, core) in cores(k) {
        let mut top = -1;
        for p in 0..=255u8 {
            let list = walk(k, core.ready.list(p));
            assert_eq!(list.is_empty(), !core.ready.occupied(p));
            for t in list {
                assert_eq!(k.threads[t].effective, p);
                assert_eq!(k.threads[t].core as usize, number, "{t:?} queues elsewhere");
                put(t, Place::Ready);
                top = p as i16;
            }
        }
        assert_eq!(core.ready.highest(), top);
    }
    for c in k.channels.all() {
        let channel = &k.channels[c];
        let mut top = -1;
        for p in 0..=255u8 {
            for t in walk(k, channel.senders.list(p)) {
                assert_eq!(k.threads[t].effective, p);
                put(t, Place::Sending(c));
                top = p as i16;
            }
        }
        assert_eq!(channel.senders.top(), top);
        for t in walk(k, &channel.held) {
            put(t, Place::Held(c));
        }
        for t in walk(k, &channel.receivers) {
            put(t, Place::Receiving(c));
        }
    }
    for s in k.semaphores.all() {
        for t in k.semaphores[s].waiters.members(&k.threads) {
            assert_eq!(k.threads[t].place.rank(), k.threads[t].effective);
            put(t, Place::Waiting(s));
        }
    }
    for d in k.domains.all() {
        for t in walk(k, &k.domains[d].stopped) {
            assert_eq!(k.threads[t].domain, d);
            put(t, Place::Stopped);
        }
    }
    places
}

fn threads(k: &Kernel<Sim>, places: &BTreeMap<ThreadRef, Place>) {
    for t in k.threads.all() {
        let thread = &k.threads[t];
        let place = places.get(&t).copied();
        let expected = match (thread.state, thread.channel) {
            (State::Ready, None) => Some(Place::Ready),
            (State::Stopped, None) => Some(Place::Stopped),
            (State::Sending, Some(c)) => Some(Place::Sending(c)),
            (State::Held, Some(c)) if thread.put_off => Some(Place::Held(c)),
            (State::Held, Some(c)) => {
                assert!(thread.server.is_some() && k.channels[c].server == thread.server);
                None
            }
            (State::Receiving, Some(c)) => Some(Place::Receiving(c)),
            (State::Waiting, None) => thread.waits.map(Place::Waiting),
            (
                State::New
                | State::Running
                | State::Aside
                | State::Sleeping
                | State::Parked
                | State::Dead,
                None,
            ) => None,
            other => panic!("{t:?}: {other:?}"),
        };
        assert_eq!(place, expected, "{t:?} {:?}", thread.state);
        let called = thread.state == State::Sending && thread.sending == Sending::Message;
        let way = thread.through.map(|r| &k.portals[r]);
        match thread.state {
            State::Waiting => assert!(way.is_none_or(|r| walk(k, &r.waiting).contains(&t))),
            _ => assert_eq!(way.is_some(), called),
        }
        assert_eq!(thread.waits.is_some(), thread.state == State::Waiting);
        if thread.state == State::Running {
            let core = cores(k).nth(thread.core as usize).expect("a core").1;
            assert_eq!(core.current, Some(t));
        }
        if matches!(thread.state, State::Ready | State::Stopped) {
            assert!(!untold(k, t), "a poke of {t:?} is not told");
        }
        if thread.state == State::Dead {
            assert!(
                thread.holders != 0
                    || thread.pulse.is_queued()
                    || thread.news.is_queued()
                    || thread.lifted,
                "{t:?} lingers"
            );
            assert!(thread.client.is_none() && thread.serving.is_none());
            assert_eq!(thread.timer.is_armed(), thread.lifted);
            continue;
        }
        // What a rest of a long chain begins with may be out of date, and nothing else.
        if !k.unrefreshed.contains(&k.threads.id(t)) {
            assert_eq!(
                thread.effective,
                k.deserved(t),
                "priority of {t:?} ({:?})",
                thread.state
            );
        }
        if thread.state == State::Receiving || thread.client.is_some() {
            assert_eq!(thread.behalf, u8::MAX);
        }
        if let Some(client) = thread.client {
            assert_eq!(k.threads[client].server, Some(t));
            assert_eq!(k.threads[client].state, State::Held);
        }
        if let Some(server) = thread.server {
            assert_eq!(k.threads[server].client, Some(t));
        }
        if let Some(c) = thread.serving {
            assert_eq!(k.channels[c].server, Some(t));
        }
    }
    for d in k.domains.all() {
        let mut count = 0;
        let mut previous = None;
        let mut next = k.domains[d].first_thread;
        while let Some(t) = next {
            assert_eq!(k.threads[t].domain, d);
            assert_ne!(k.threads[t].state, State::Dead);
            assert_eq!(k.threads[t].siblings.previous, previous);
            previous = next;
            next = k.threads[t].siblings.next;
            count += 1;
        }
        assert_eq!(count, k.domains[d].live);
    }
}

fn channels(k: &Kernel<Sim>) {
    for c in k.channels.all() {
        let channel = &k.channels[c];
        if channel.receivers.first().is_some() && !channel.dying {
            assert!(channel.senders.is_empty(), "a sender and a receiver wait");
            assert!(!channel.pulses.is_waiting(), "a pulse and a receiver wait");
        }
        assert!(channel.pulses.is_waiting() || channel.pulses.priority == 0);
        if let Some(server) = channel.server {
            assert_eq!(k.threads[server].serving, Some(c));
        }
    }
    let signatures = k.channels.all().filter_map(|c| k.channels[c].signature);
    let signatures: BTreeSet<_> = signatures.collect();
    let signed = k
        .channels
        .all()
        .filter(|&c| k.channels[c].signature.is_some() && !k.channels[c].dying);
    assert_eq!(signed.count(), signatures.len());
    assert_eq!(k.signatures.live_objects() as usize, signatures.len());
    let mut derived = BTreeMap::new();
    for p in k.portals.all() {
        let portal = &k.portals[p];
        let waits = portal.notified || k.end_is_due(p);
        let queued = portal.pulse.is_queued();
        match k.channels.lookup(portal.channel) {
            Some(c) => {
                assert_eq!(queued, waits, "{p:?}");
                assert!(portal.pulse.channel.is_none_or(|queued| queued == c));
            }
            None => {
                let dying = portal.pulse.channel.is_some_and(|c| k.channels[c].dying);
                assert!(!queued || dying || waits && portal.revoked);
            }
        }
        assert!(!k.is_unheld(p) || queued, "{p:?} lingers");
        assert_eq!(k.only_child(p), None, "{p:?} is kept by that one only");
        if portal.revoked {
            assert_eq!((portal.channel, portal.under), (0, Target::EMPTY));
        }
        for t in walk(k, &portal.waiting) {
            assert_eq!(k.threads[t].through, Some(p));
            assert!(k.threads[t].waits.is_some());
        }
        for child in revoke::children(k, p) {
            assert_eq!(derived.insert(child, p), None);
        }
    }
    for p in k.portals.all() {
        assert_eq!(k.portals[p].lineage.parent(), derived.get(&p).copied());
    }
    for c in k.channels.all() {
        let keeps = |id: u32| (id != 0 && id & INDEX_MASK == k.channels.index(c)) as u32;
        let portals = k.portals.all().map(|p| keeps(k.portals[p].channel));
        let watched = k.domains.all().map(|d| keeps(k.domains[d].watch_channel));
        let spaces = k.spaces.all().map(|s| keeps(k.spaces[s].pager));
        let count: u32 = portals.chain(watched).chain(spaces).sum();
        assert_eq!(k.channels[c].references, count);
    }
}

fn semaphores(k: &Kernel<Sim>) {
    let mut listed = BTreeMap::new();
    for t in k.threads.all() {
        let contended = k.threads[t].contended.members(&k.semaphores);
        assert_eq!(k.threads[t].lifted, !contended.is_empty());
        for s in contended {
            assert_eq!(listed.insert(s, t), None);
        }
    }
    for s in k.semaphores.all() {
        let semaphore = &k.semaphores[s];
        let first = semaphore.waiters.first();
        assert!(semaphore.count >= 0);
        assert!(semaphore.count == 0 || !semaphore.mutex && first.is_none());
        let expected = match first {
            Some(first) if semaphore.mutex => {
                assert_eq!(semaphore.place.rank(), k.threads[first].effective);
                Some(semaphore.owner.expect("waited for, so owned").thread)
            }
            _ => None,
        };
        assert_eq!(listed.remove(&s), expected);
        assert!(semaphore.mutex || semaphore.owner.is_none());
    }
    assert!(listed.is_empty());
}

/// Every thread's priority, found anew from the threads' own ones and from who waits for whom, without looking at a queue.
fn priorities(k: &Kernel<Sim>) {
    let all: Vec<ThreadRef> = k
        .threads
        .all()
        .filter(|&t| k.threads[t].state != State::Dead)
        .collect();
    let mut found = BTreeMap::new();
    for &t in &all {
        let expected = priority(k, &all, &mut found, t, 0);
        assert_eq!(k.threads[t].effective, expected, "priority of {t:?}");
        let thread = &k.threads[t];
        let may_fall = thread.adaptive && thread.serving.is_none();
        assert!(
            thread.base == thread.assigned || may_fall && thread.base + 1 == thread.assigned,
            "{t:?} fell to {} of {}",
            thread.base,
            thread.assigned
        );
    }
    let fallen = all.iter().filter(|&&t| k.threads[t].has_fallen()).count();
    assert_eq!(k.fallen as usize, fallen);
    assert!(fallen == 0 || k.patience_end != u64::MAX);
}

fn priority(
    k: &Kernel<Sim>,
    all: &[ThreadRef],
    found: &mut BTreeMap<ThreadRef, u8>,
    t: ThreadRef,
    depth: usize,
) -> u8 {
    assert!(depth <= all.len(), "a circle of threads that wait");
    if let Some(&known) = found.get(&t) {
        return known;
    }
    let thread = &k.threads[t];
    let mut highest = match thread.client {
        Some(client) => priority(k, all, found, client, depth + 1),
        None => thread.base.min(thread.behalf),
    };
    if let Some(c) = thread.serving {
        highest = highest.max(thread.base.min(k.channels[c].pulses.priority));
    }
    for &other in all {
        let waits = &k.threads[other];
        let for_it = match waits.state {
            State::Sending => thread.serving.is_some() && waits.channel == thread.serving,
            State::Waiting => waits
                .waits
                .is_some_and(|s| k.semaphores[s].mutex && k.living_owner(s) == Some(t)),
            _ => false,
        };
        if for_it {
            highest = highest.max(priority(k, all, found, other, depth + 1));
        }
    }
    found.insert(t, highest);
    highest
}

fn timers(k: &Kernel<Sim>) {
    let mut in_heap = 0;
    for t in k.threads.all() {
        let thread = &k.threads[t];
        if thread.timer.is_armed() {
            in_heap += 1;
            let looks = |core: &Dispatch| core.put_off <= thread.effective || core.called;
            assert!(cores(k).all(|(_, core)| {
                let busy = core.current.map(|t| k.threads[t].effective) > Some(thread.effective);
                looks(core) || busy || core.ready.top() > thread.effective as i16
            }));
            let armed =
                |core: &Dispatch| core.called || core.armed <= thread.deadline.max(k.arch.time);
            let looked_at = cores(k).any(|(_, core)| looks(core));
            assert!(!looked_at || cores(k).any(|(_, core)| looks(core) && armed(core)));
        }
        let waits = matches!(
            thread.state,
            State::Sending
                | State::Held
                | State::Receiving
                | State::Parked
                | State::Sleeping
                | State::Waiting
        );
        if waits && thread.sending == crate::thread::Sending::Message && thread.deadline != 0 {
            assert!(thread.timer.is_armed(), "deadline of {t:?} does not count");
        }
    }
    assert_eq!(in_heap, k.armed().len());
}

fn holders(k: &Kernel<Sim>) {
    let mut count: BTreeMap<(u8, u32), u32> = BTreeMap::new();
    for d in k.domains.all() {
        let table = &k.domains[d].table;
        let mut used = 0;
        for slot in 0..table.entries() {
            if let Some(target) = table.target(slot as u64) {
                *count
                    .entry((target.kind() as u8, target.object()))
                    .or_default() += 1;
                used += 1;
            }
        }
        assert_eq!(used, table.used());
        let reserved = (0..cairn_abi::layout::RESERVED_SLOTS.min(table.entries()))
            .filter(|&slot| table.target(slot as u64).is_none())
            .count() as u32;
        // Of a table that is taken apart nobody takes free slots.
        if !k.domains[d].dead {
            assert_eq!(table.free_slots() + used + reserved, table.entries());
        }
    }
    for r in k.portals.all() {
        let under = k.portals[r].under;
        if !under.is_empty() {
            let count = count
                .entry((under.kind() as u8, under.object()))
                .or_default();
            *count += 1;
        }
    }
    let callers = |r| {
        let callers = k.portals[r].callers.members(&k.threads);
        let all = k.threads.all();
        let through = all.filter(|&t| k.threads[t].through == Some(r));
        assert_eq!(callers.iter().collect::<BTreeSet<_>>().len(), callers.len());
        assert!(callers.iter().all(|&t| k.threads[t].through == Some(r)));
        let waiting = walk(k, &k.portals[r].waiting).len();
        assert_eq!(through.count(), callers.len() + waiting);
        callers.len() as u32
    };
    let counted =
        |kind: PortalKind, index: u32| count.get(&(kind as u8, index)).copied().unwrap_or(0);
    for r in k.portals.all() {
        assert_eq!(
            k.portals[r].holders,
            counted(PortalKind::Channel, r.number())
                + counted(PortalKind::Derived, r.number())
                + callers(r)
        );
    }
    for r in k.windows.all() {
        let expected = counted(PortalKind::Window, r.number());
        assert_eq!(k.windows[r].holders, expected);
        assert!(expected != 0);
    }
    for r in k.channels.all() {
        assert_eq!(
            k.channels[r].holders,
            counted(PortalKind::Receive, r.number())
        );
        assert!(k.channels[r].holders != 0 || k.channels[r].references != 0);
        assert!(k.channels[r].holders != 0 || k.channels[r].dying);
    }
    for r in k.domains.all() {
        assert_eq!(
            k.domains[r].holders,
            counted(PortalKind::Domain, r.number())
        );
    }
    for r in k.threads.all() {
        assert_eq!(
            k.threads[r].holders,
            counted(PortalKind::Thread, r.number())
        );
    }
    for r in k.semaphores.all() {
        let semaphore = &k.semaphores[r];
        assert_eq!(
            semaphore.holders,
            counted(PortalKind::Semaphore, r.number())
        );
        assert!(semaphore.holders != 0);
    }
    for r in k.spaces.all() {
        assert_eq!(k.spaces[r].holders, counted(PortalKind::Space, r.number()));
        let users = k
            .domains
            .all()
            .filter(|&d| !k.domains[d].empty && k.domains[d].space == r)
            .count() as u32;
        assert_eq!(k.spaces[r].domains, users);
    }
}

/// Frames that windows hide.
fn hidden(k: &Kernel<Sim>) -> Vec<u32> {
    let mut hidden = Vec::new();
    for w in k.windows.all() {
        if let Some(view) = &k.windows[w].view {
            hidden.extend(
                (0..view.pages)
                    .filter(|i| view.shown >> i & 1 != 0)
                    .map(|i| k.windows[w].hidden[i as usize]),
            );
        }
    }
    hidden
}

/// What is shown is mapped by its owner, with at least the same rights; the lists and counts are right.
fn windows(k: &Kernel<Sim>) {
    let mut open: BTreeMap<u32, u32> = BTreeMap::new();
    let mut shown: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut made: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut of_calls: BTreeMap<u32, u8> = BTreeMap::new();
    for w in k.windows.all() {
        let window = &k.windows[w];
        made.entry(window.space.number())
            .or_default()
            .push(w.number());
        let Some(view) = &window.view else {
            continue;
        };
        assert_ne!(view.space, window.space);
        assert!(view.pages <= window.pages);
        *open.entry(window.space.number()).or_default() += 1;
        *open.entry(view.space.number()).or_default() += 1;
        shown
            .entry(view.space.number())
            .or_default()
            .push(w.number());
        if let Some(caller) = view.caller {
            let thread = &k.threads[caller];
            assert_eq!(thread.state, State::Held);
            assert_eq!(k.domains[thread.domain].space, view.space);
            *of_calls.entry(caller.number()).or_default() += 1;
        }
        let root = |s| k.spaces[s].root.expect("a root");
        for i in (0..view.pages).filter(|i| view.shown >> i & 1 != 0) {
            let at = i as u64 * 4096;
            let page =
                |root, address: u64| k.arch.spaces[&root].pages.get(&(address >> 12)).copied();
            let (ours, bits) = page(root(window.space), window.address + at).expect("shown");
            let (theirs, most) = page(root(view.space), view.address + at).expect("theirs");
            assert_eq!(ours, theirs);
            assert_eq!(bits & !most, 0, "more than its owner may");
            assert_eq!(k.frames.kind(window.hidden[i as usize]), FrameKind::User);
            // Nobody sees it through this page at second hand.
            for other in k.windows.all().filter(|&other| other != w) {
                if let Some(second) = &k.windows[other].view {
                    let inside = (second.address..second.address + second.pages as u64 * 4096)
                        .contains(&(window.address + at));
                    assert!(second.space != window.space || !inside);
                }
            }
        }
    }
    for s in k.spaces.all() {
        let space = &k.spaces[s];
        let count = |map: &BTreeMap<u32, u32>| map.get(&s.number()).copied().unwrap_or(0);
        assert_eq!(space.open_windows, count(&open));
        let walk =
            |first, next: &dyn Fn(crate::pool::WindowRef) -> Option<crate::pool::WindowRef>| {
                let mut found = Vec::new();
                let mut at: Option<crate::pool::WindowRef> = first;
                while let Some(w) = at {
                    assert!(found.len() < 100);
                    found.push(w.number());
                    at = next(w);
                }
                found.sort_unstable();
                found
            };
        let of = |map: &BTreeMap<u32, Vec<u32>>| map.get(&s.number()).cloned().unwrap_or_default();
        assert_eq!(walk(space.windows, &|w| k.windows[w].next), of(&made));
        let views = walk(space.shown, &|w| {
            k.windows[w].view.as_ref().expect("open").next
        });
        assert_eq!(views, of(&shown));
        assert_eq!(space.shown_count as usize, views.len());
    }
    for t in k.threads.all() {
        let expected = of_calls.get(&t.number()).copied().unwrap_or(0);
        assert_eq!(k.threads[t].windows, expected);
    }
}

/// What `plain` says of a channel is true, and nothing is left of quick calls.
fn plain(k: &Kernel<Sim>) {
    for c in k.channels.all() {
        let channel = &k.channels[c];
        if channel.plain == 0 {
            continue;
        }
        let t = channel.server.expect("a server");
        let thread = &k.threads[t];
        assert_eq!((channel.plain >> 32) as u32, thread.server_number);
        assert_ne!(thread.server_number, 0);
        assert_eq!(channel.plain as u32, k.plain_id(c));
        assert_eq!(walk(k, &channel.receivers), [t]);
        assert_eq!(
            (thread.state, thread.serving, channel.server),
            (State::Receiving, Some(c), Some(t))
        );
        assert_eq!(
            (thread.deadline, thread.poked, thread.full),
            (0, false, false)
        );
        assert_eq!((thread.stops, channel.dying), (0, false));
        assert_eq!(thread.entries, thread.own_entries);
    }
    for t in k.threads.all() {
        let thread = &k.threads[t];
        assert_eq!(thread.reply_code, 0, "{t:?}");
        let unusual = thread.deadline != 0 || thread.poked || thread.lifted;
        if k.dispatch.current == Some(t) {
            assert_eq!(thread.entries != thread.own_entries, unusual);
        }
    }
    let mut blocks = 0;
    for d in k.domains.all() {
        let domain = &k.domains[d];
        let unusual = domain.stops != 0 || domain.float || domain.turn_base != 0;
        assert_eq!(domain.unusual != 0, unusual);
        let beside = domain.stops != 0 || domain.turn_base != 0;
        assert_eq!(domain.unusual_beside != 0, beside);
        let table = &k.domains[d].table;
        let own = (0..table.entries()).filter(|&s| table.entry(s).is_some_and(|e| e.code != 0));
        let own = own.count() as u32;
        assert_eq!(k.domains[d].blocks, own);
        blocks += own;
    }
    let handlers = k.handlers.iter().filter(|handler| handler.has_code());
    assert_eq!(k.blocks.live_objects(), blocks + handlers.count() as u32);
}

fn frames(k: &Kernel<Sim>) {
    let mut mapped: BTreeMap<u32, u32> = BTreeMap::new();
    for (&root, space) in &k.arch.spaces {
        let mut all = k.spaces.all();
        let may = all.any(|s| k.spaces[s].root == Some(root) && k.spaces[s].writable_code);
        for &(frame, bits) in space.pages.values() {
            *mapped.entry(frame).or_default() += 1;
            assert!(may || bits & 6 != 6, "writable and executable");
            match k.frames.kind(frame) {
                FrameKind::Nucleus => panic!("a nucleus frame is mapped"),
                FrameKind::System => assert_eq!(bits, 1),
                _ => {}
            }
        }
        for &table in space.tables.values() {
            assert_eq!(k.frames.kind(table), FrameKind::Nucleus);
        }
    }
    if let (Some(common), Some((_, table))) = (&k.arch.common, k.common) {
        assert_eq!(k.frames.kind(table), FrameKind::Nucleus);
        for &(frame, bits) in common.pages.values() {
            *mapped.entry(frame).or_default() += 1;
            assert_eq!(bits & 2, 0, "a common page can be written");
        }
    }
    for frame in hidden(k) {
        *mapped.entry(frame).or_default() += 1;
    }
    for frame in 0..super::FRAMES {
        if k.frames.kind(frame) == FrameKind::User {
            let expected = mapped.get(&frame).copied().unwrap_or(0);
            assert_eq!(k.frames.mappings(frame), expected, "frame {frame}");
        }
    }
}

/// The state of each core.
/// It was poked, could hear of it now, and has not.
fn untold(k: &Kernel<Sim>, t: ThreadRef) -> bool {
    let thread = &k.threads[t];
    thread.poked && !thread.in_upcall && k.domains[thread.domain].upcall_entry != 0
}

fn cores(k: &Kernel<Sim>) -> impl Iterator<Item = (usize, &Dispatch)> {
    (0..k.cores.count).map(|core| (core, k.cores.away[core].as_ref().unwrap_or(&k.dispatch)))
}

/// It was told to come in, and has not done so yet.
fn told(k: &Kernel<Sim>, core: usize) -> bool {
    k.arch.kicked.contains(&core)
}

fn dispatch(k: &Kernel<Sim>) {
    let runs = |t: ThreadRef| !k.is_stopped(t);
    for (number, core) in cores(k) {
        // One that was told to come in has not done yet what it will do then.
        if told(k, number) {
            continue;
        }
        assert!(!core.called, "core {number} waits for ever");
        let waits = |t: &ThreadRef| {
            let thread = &k.threads[*t];
            thread.state == State::Ready && thread.core as usize == number && runs(*t)
        };
        match core.current {
            Some(t) => {
                assert_eq!(k.threads[t].state, State::Running);
                assert_eq!(k.threads[t].core as usize, number);
                assert!(k.threads[t].affinity & 1 << number != 0);
                assert!(runs(t));
                assert_eq!(core.loaded, Some(t));
                let domain = &k.domains[k.threads[t].domain];
                // What runs above the program asks by itself.
                let above = k.threads[t].registers.rip >= domain.turn_base;
                assert!(above || !untold(k, t), "a poke of {t:?} is not told");
                if domain.float {
                    assert_eq!(core.owner, Some(t));
                }
                let (active, turn) = k.arch.loaded(number);
                assert_eq!(active, k.spaces[domain.space].root);
                assert_eq!(turn, domain.turn_base);
                for ready in k.threads.all().filter(waits) {
                    assert!(
                        k.threads[ready].effective <= k.threads[t].effective,
                        "core {number} (of {}, here {}) runs {t:?}, {ready:?} waits, preempt {}",
                        k.cores.count,
                        k.cores.here,
                        core.preempt
                    );
                }
            }
            None => assert_eq!(k.threads.all().find(waits), None),
        }
    }
    for t in k.threads.all() {
        let owners = cores(k).filter(|(_, core)| core.owner == Some(t)).count();
        assert!(owners <= 1, "the registers of {t:?} are in two cores");
    }
    // A CONTINUE that has shares left is the one exception.
    if k.dispatch
        .current
        .is_some_and(|t| k.threads[t].registers.rip == super::SYSCALL)
    {
        return;
    }
    for t in k.threads.all() {
        assert!(
            k.threads[t].state != State::Stopped || !runs(t),
            "{t:?} should run"
        );
    }
}
