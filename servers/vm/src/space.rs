//! Spaces, domains and objects as `vm` knows them, and the state that holds them together.

use crate::accounts::{Account, Charges, ONE_RECORD, ROOT, SYSTEM};
use crate::cache::Lenders;
use crate::code::Code;
use crate::dma::Dma;
use crate::forked::Plan;
use crate::frames::{Frames, MANY};
use crate::later::Later;
use crate::lock::Limits;
use crate::makers::Makers;
use crate::nucleus::{Frame, Nucleus};
use crate::offer::Offer;
use crate::pages::{Kinds, Pages};
use crate::pieces::Pieces;
use crate::pools::Pools;
use crate::region::{Region, Regions, ANONYMOUS};
use crate::secret::Names;
use crate::shown::AT_ONCE;
use crate::slab::{Handle, Slab};
use crate::taken::Taken;
use crate::wanted::{Idle, Pagers};
use alloc::vec::Vec;
use cairn_abi::service::memory::{prot as access, Fill, ROWS};
use cairn_abi::{Error, Id, Token};
use cairn_idl::vm::{flags, prot};

/// Linux's error numbers, positive.
pub type Errno = i64;

/// A handle that names nothing.
pub const NOBODY: Handle = Handle::MAX;
/// Most regions of a space (Linux's `vm.max_map_count`).
pub const MAX_REGIONS: usize = 65_530;
/// Most pages of one nucleus operation.
pub const BATCH: u64 = 512;
/// Frames that only `vm` and page tables may use, when native components get none any more.
pub const NATIVE_RESERVE: usize = 64;
/// Frames that are for `vm`'s own heap alone.
pub const OWN_RESERVE: usize = 32;

/// Where a space's mappings are placed when nobody says where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Upwards from this page.
    Native(u64),
    /// Downwards from LINUX_TOP.
    Linux,
}

/// How often a program had to wait for a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// All that were answered with a page.
    pub resolved: u64,
    /// Those that had to wait for who brings it.
    pub major: u64,
}

impl Faults {
    /// Minor and major ones.
    pub fn words(self) -> [u64; 2] {
        [self.resolved.saturating_sub(self.major), self.major]
    }
}

pub struct Space {
    /// Its portal in `vm`'s table.
    pub slot: u32,
    /// The badge of its faults.
    pub handle: Handle,
    pub layout: Layout,
    pub code: Code,
    /// It cannot fault (`init`): everything is resident at once.
    pub eager: bool,
    pub regions: Regions,
    pub pages: Pages,
    /// Domains that use it.
    pub domains: u32,
    /// Most mapped and offered pages and frames for the nucleus's objects, 0 = no limit.
    pub limit: u64,
    pub limits: Limits,
    pub mapped: u64,
    /// Frames that the nucleus got because this component asked for more objects.
    pub objects: u64,
    /// Pages of offers that it made and nobody took.
    pub offered: u64,
    /// Who pays for it.
    pub account: Account,
    /// How many frames stay free when it gets one.
    pub floor: usize,
    /// What this component has charged to accounts.
    pub charges: Charges,
    /// Bytes of its list of regions, as its account has them counted.
    pub recorded: u32,
    /// What else its end would give back (see [`crate::exhausted`]).
    pub weight: u64,
    /// The least adjustment of its domains, looked for when somebody must end.
    pub adjust: i16,
    pub faults: Faults,
    /// The space that it was copied from, as long as it runs the same program.
    pub parent: Handle,
    /// How often it was copied.
    pub forks: u32,
    /// The block of frames that its page tables come from, and which of them have come back.
    pub block: Option<Frame>,
    pub returned: u16,
}

/// What the maker of an object hears of it (see [`crate::wanted`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hears {
    Nothing,
    /// Which pages are wanted that are not there, and when nobody has it mapped any more.
    Wanted,
    /// Who asked for it first hears when nobody has it mapped any more.
    Unused,
}

/// Memory that several regions show: adopted from pages of its maker, or anonymous.
pub struct Object {
    pub pages: Pages,
    /// The space of who may change it.
    pub maker: Handle,
    /// The space that asked for it first, and its account, which pays for what is made here.
    pub origin: Handle,
    pub account: Account,
    pub len: u64,
    pub handle: Handle,
    /// What its maker calls it.
    pub tag: u64,
    pub hears: Hears,
    /// Its maker shall hear that nobody has it mapped.
    pub idle: bool,
    /// But not yet.
    pub rests: bool,
    /// Since it was last told so some region showed it shared, by which its pages may have been written.
    pub shared: bool,
    pub writable: bool,
    /// It is zeroed when its maker ends.
    pub with_maker: bool,
    /// Portals that lead to it.
    pub portals: u32,
    /// Its maker has succeeded another one and has no portal to it yet.
    pub inherited: bool,
    /// Pages of all regions that show it, and of those among them from which programs were started.
    pub mapped: u64,
    pub programs: u64,
    /// Its pages know what was asked for in private mappings, of which there were so many.
    pub asked: bool,
    pub times: u32,
    /// Which of the first pages of memory right behind private mappings of it (a library's zeroes) were asked for.
    pub behind: u64,
}

#[derive(Clone, Copy)]
pub struct Domain {
    pub id: Id,
    /// Its portal in `vm`'s table.
    pub slot: u32,
    pub space: usize,
    /// Who pays for what it makes.
    pub account: Account,
    /// It may use what is kept for user 0.
    pub root: bool,
    /// By how much it is likelier to end than others when memory is exhausted ([`cairn_idl::vm::OOM_ADJUST`]).
    pub adjust: i16,
}

/// A fault that waits for memory.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub token: Token,
    pub space: Handle,
    pub page: u64,
    pub access: u64,
    /// The domain of the thread.
    pub waits: Id,
}

/// What `init` tells at the start.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// First frame and count.
    pub free: Vec<(Frame, u32)>,
    pub archive: (Frame, u32),
    /// Frames that `init` and `vm` took before.
    pub used: u64,
    /// `init`'s domain and the slot of its space.
    pub init: Id,
    pub init_space: u32,
    /// Nobody else's, and another one at each boot.
    pub secret: [u64; 2],
    /// What the manifest says of programs.
    pub writable_code: bool,
}

pub struct Vm<N> {
    pub nucleus: N,
    /// What pages of shared objects are called to others.
    pub(crate) names: Names,
    /// What programs start with.
    pub(crate) code: Code,
    pub frames: Frames,
    pub(crate) spaces: Slab<Space>,
    pub(crate) objects: Slab<Object>,
    pub(crate) offers: Slab<Offer>,
    /// Objects whose pages are being taken away from their mappings, and how often pages have come to other places with their mappings (see [`crate::taken`]).
    pub(crate) taken: Vec<Taken>,
    pub(crate) moves: u64,
    /// By the index in the domain id.
    pub(crate) domains: Pieces<Option<Domain>>,
    /// Spaces without domains that the nucleus would not give up yet.
    pub(crate) leaving: Vec<Space>,
    pub(crate) later: Later,
    pub(crate) init: Id,
    /// A frame of zeroes, for holes of objects.
    pub(crate) zeroes: Frame,
    pub(crate) system_page: Frame,
    /// The frames that all Linux spaces show alike (see [`crate::common`]), with a reference for each; they stay.
    pub(crate) common: Vec<Frame>,
    /// Programs of user 0 get a frame only while more than this are free.
    pub(crate) reserve: usize,
    /// Programs of all other users, and servers for them, only while more than this are.
    pub(crate) user_floor: usize,
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) lenders: Lenders,
    pub(crate) dma: Dma,
    pub(crate) pagers: Pagers,
    pub(crate) makers: Makers,
    pub(crate) watcher: Option<u32>,
    /// The domain that set the watcher. It must never wait for memory: only it can make some.
    pub(crate) watching: Id,
    pub(crate) notified: bool,
    pub(crate) pools: Pools,
    /// Frames lent to spaces for page tables and portal tables.
    pub(crate) table_frames: u64,
    pub(crate) used: u64,
    /// `vm`'s own heap has little left, and there are no frames for it: nothing new is recorded.
    pub(crate) starved: bool,
    /// Frames that `vm`'s heap got since.
    pub(crate) heap_frames: u64,
    pub(crate) archive: (Frame, u32),
    /// Empty; its lists keep their memory for the next fork.
    pub(crate) plan: Plan,
    /// The same for pages that a mapping or a fault shows.
    pub(crate) fills: Vec<Fill>,
}

impl Object {
    /// What is written to a hole of somebody's object would not be its maker's: no page is made there.
    pub(crate) fn is_closed_to(&self, region: &Region) -> bool {
        self.maker != NOBODY && region.shared() && u64::from(region.most) & prot::WRITE != 0
    }

    /// So many pages more of a region show it.
    #[inline]
    pub(crate) fn shows(&mut self, region: &Region, pages: u64) {
        self.mapped += pages;
        self.shared |= region.shared();
        if u64::from(region.flags) & flags::PROGRAM != 0 {
            self.programs += pages;
        }
    }

    /// Or fewer.
    #[inline]
    pub(crate) fn hides(&mut self, region: &Region, pages: u64) {
        self.mapped -= pages;
        if u64::from(region.flags) & flags::PROGRAM != 0 {
            self.programs -= pages;
        }
    }

    pub(crate) fn unused(&self) -> bool {
        self.portals == 0 && self.mapped == 0
    }
}

impl Space {
    /// What is taken next is for this space → how many frames must stay free.
    #[inline]
    pub fn pay(&self, frames: &mut Frames) -> usize {
        frames.pay(self.account, self.floor)
    }

    /// The same for page tables and `vm`'s records of a program, which come with pages that were there already.
    fn tables_floor(&self, frames: &Frames) -> usize {
        match self.linux() {
            true => self.floor.saturating_sub(frames.floor()),
            false => OWN_RESERVE,
        }
    }

    /// It has so many pages that a request may be on many.
    #[inline]
    pub fn has_many(&self) -> bool {
        self.pages.resident() > MANY
    }

    pub fn linux(&self) -> bool {
        self.layout == Layout::Linux
    }

    /// Whether `pages` more may be mapped.
    pub fn within_limit(&self, pages: u64) -> bool {
        self.limit == 0
            || self
                .mapped
                .saturating_add(self.objects)
                .saturating_add(self.offered)
                .saturating_add(pages)
                <= self.limit
    }
}

/// A region's protection for the hardware; with `cow` without WRITE.
#[inline]
pub fn hardware(prot_bits: u8, cow: bool) -> u64 {
    let p = u64::from(prot_bits);
    if p == 0 {
        return 0;
    }
    let mut bits = access::READ;
    if p & prot::WRITE != 0 && !cow {
        bits |= access::WRITE;
    }
    if p & prot::EXECUTE != 0 {
        bits |= access::EXECUTE;
    }
    bits
}

/// Why a nucleus operation on a space could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No frame for a page table.
    NoFrame,
    Refused,
}

/// Do an operation that may need page tables; give the space frames for them when it says so.
#[inline(always)]
pub(crate) fn with_tables<N: Nucleus>(
    nucleus: &mut N,
    frames: &mut Frames,
    space: &mut Space,
    table_frames: &mut u64,
    mut operation: impl FnMut(&mut N, u32) -> Result<(), Error>,
) -> Result<(), Trouble> {
    // Each row of a batch touches at most two tables of each of three levels.
    for _ in 0..6 * ROWS {
        match operation(nucleus, space.slot) {
            Ok(()) => return Ok(()),
            Err(Error::NoTable) => give_table(nucleus, frames, space, table_frames)?,
            Err(_) => return Err(Trouble::Refused),
        }
    }
    Err(Trouble::Refused)
}

/// Give a space one more frame for page tables.
#[cold]
pub(crate) fn give_table<N: Nucleus>(
    nucleus: &mut N,
    frames: &mut Frames,
    space: &mut Space,
    table_frames: &mut u64,
) -> Result<(), Trouble> {
    let floor = space.tables_floor(frames);
    let keep = frames.pay(space.account, floor);
    let frame = frames.alloc(keep).ok_or(Trouble::NoFrame)?;
    if nucleus.give_tables(space.slot, frame, 1).is_err() {
        frames.release(frame);
        return Err(Trouble::Refused);
    }
    *table_frames += 1;
    Ok(())
}

impl<N: Nucleus> Vm<N> {
    /// The state at the start: `init` is known, its archive pages are adopted.
    pub fn new(mut nucleus: N, frames: Frames, start: &Start) -> Vm<N> {
        let mut frames = frames;
        let zeroes = frames.alloc(0).unwrap_or(0);
        if zeroes != 0 {
            // It is our own frame: this cannot fail.
            let _ = nucleus.zero_frame(zeroes);
        }
        let system_page = nucleus.system_page();
        let reserve = (frames.total() / 50).max(512).min(frames.total() / 8);
        frames.set_floor(reserve / 2);
        let total = frames.total();
        let mut vm = Vm {
            nucleus,
            names: Names { key: start.secret },
            code: Code::of_programs(start.writable_code),
            frames,
            spaces: Slab::new(),
            objects: Slab::new(),
            offers: Slab::new(),
            taken: Vec::new(),
            moves: 0,
            domains: Pieces::new(),
            leaving: Vec::new(),
            later: Later::default(),
            init: start.init,
            zeroes,
            system_page,
            common: Vec::new(),
            reserve,
            user_floor: reserve + total / 32,
            waiting: Vec::new(),
            lenders: Lenders::default(),
            dma: Dma::default(),
            pagers: Pagers::default(),
            makers: Makers::default(),
            watcher: None,
            watching: 0,
            notified: false,
            pools: Pools::new(),
            table_frames: 0,
            used: start.used,
            starved: false,
            heap_frames: 0,
            archive: start.archive,
            plan: Plan::new(),
            fills: Vec::with_capacity(AT_ONCE),
        };
        vm.adopt_init(start);
        vm
    }

    /// `init`'s space, with the boot archive as its only region.
    fn adopt_init(&mut self, start: &Start) {
        use cairn_abi::layout::{ARCHIVE, PAGE};
        let first = ARCHIVE / PAGE;
        let mut space = Space {
            slot: start.init_space,
            handle: 0,
            // Above everything that `init` mapped for itself.
            layout: Layout::Native(0x2000_0000_0000 / PAGE),
            code: Code::Built,
            eager: true,
            account: SYSTEM,
            floor: NATIVE_RESERVE,
            charges: Charges::new(),
            recorded: 0,
            faults: Faults::default(),
            weight: 0,
            adjust: i16::MAX,
            regions: Regions::default(),
            pages: Pages::default(),
            domains: 1,
            limit: 0,
            limits: Limits::default(),
            objects: 0,
            mapped: 0,
            offered: 0,
            parent: NOBODY,
            forks: 0,
            block: None,
            returned: 0,
        };
        for i in 0..start.archive.1 {
            if self.frames.adopt(start.archive.0 + i) {
                space.pages.set(
                    &mut self.frames,
                    first + u64::from(i),
                    start.archive.0 + i,
                    false,
                );
            }
        }
        if start.archive.1 > 0 {
            space.regions.insert(Region {
                start: first,
                end: first + u64::from(start.archive.1),
                prot: prot::READ as u8,
                most: prot::READ as u8,
                flags: 0,
                marks: 0,
                object: ANONYMOUS,
                offset: 0,
            });
            space.mapped = u64::from(start.archive.1);
        }
        if let Some(index) = self.spaces.insert(space) {
            self.set_domain(Domain {
                id: start.init,
                slot: 0,
                space: index,
                account: ROOT,
                root: true,
                adjust: 0,
            });
        }
    }

    /// Note a domain, or that it has another space. False: there is no memory for a new one.
    pub(crate) fn set_domain(&mut self, domain: Domain) -> bool {
        let at = (domain.id & 0xf_ffff) as usize;
        while self.domains.len() <= at {
            if self.domains.push(None).is_none() {
                return false;
            }
        }
        if let Some(place) = self.domains.get_mut(at) {
            *place = Some(domain);
        }
        true
    }

    /// The domain with this id, if `vm` made it.
    #[inline]
    pub(crate) fn domain(&self, id: Id) -> Option<Domain> {
        (*self.domains.get((id & 0xf_ffff) as usize)?).filter(|d| d.id == id)
    }

    /// Whether what a program asks for may still make `vm`'s records of it longer.
    pub(crate) fn may_record(&self, space: &Space) -> bool {
        !self.starved && (!space.linux() || self.frames.free() > space.tables_floor(&self.frames))
    }

    /// Take everything out of `start..end` of a space.
    pub(crate) fn unmap_pages(&mut self, index: usize, start: u64, end: u64) {
        self.drop_pages(index, start, end);
        let Some(space) = self.spaces.get_mut(index) else {
            return;
        };
        let mapped = &mut space.mapped;
        let (objects, frames) = (&mut self.objects, &mut self.frames);
        let idle = &mut self.pagers.idle;
        space.regions.remove(start, end, |piece| {
            *mapped -= piece.pages();
            forget_piece(objects, frames, idle, piece);
        });
    }

    /// Drop the resident pages of `start..end` but keep the regions.
    pub(crate) fn drop_pages(&mut self, index: usize, start: u64, end: u64) {
        let Some(space) = self.spaces.get_mut(index) else {
            return;
        };
        if space.pages.is_empty_in(start, end) {
            return;
        }
        let nucleus = &mut self.nucleus;
        let slot = space.slot;
        space.pages.runs(start, end, 64, BATCH, Kinds::One, |run| {
            let _ = nucleus.unmap(slot, run.page * 4096, run.pages);
        });
        let frames = &mut self.frames;
        space.pages.drain(frames, start, end);
    }
}

/// An object that nothing shows and nobody holds goes.
pub(crate) fn drop_if_unused(objects: &mut Slab<Object>, frames: &mut Frames, index: u32) {
    if objects.get(index as usize).is_some_and(Object::unused) {
        if let Some(mut object) = objects.remove(index as usize) {
            let accounts = &mut frames.accounts;
            accounts.count(object.account, |record| record.records -= ONE_RECORD as u32);
            frames.drop_all(core::mem::take(&mut object.pages));
        }
    }
}

/// A region (or a piece of one) is gone: its object shows fewer pages.
pub(crate) fn forget_piece(
    objects: &mut Slab<Object>,
    frames: &mut Frames,
    idle: &mut Idle,
    piece: &Region,
) {
    if piece.object != ANONYMOUS {
        if let Some(object) = objects.get_mut(piece.object as usize) {
            object.hides(piece, piece.pages());
            if object.mapped != 0 {
                return;
            }
            idle.add(object);
        }
        drop_if_unused(objects, frames, piece.object);
    }
}
