//! Start of the nucleus in long mode: from the loader's information to the first thread.

use super::acpi::{self, Acpi};
use super::apic::{self, LocalApic};
use super::boot_end;
use super::clock;
use super::code_log;
use super::console;
use super::cpu::{self, Features};
use super::descriptors::{self, guard_pages, Single};
use super::entry::{syscall_entry, vector_stubs};
use super::glue;
use super::interrupts::{silence_pics, Lines};
use super::machine::Machine;
use super::memory::{frame_pointer, DIRECT_MAP, PAGE};
use super::other_cores;
use super::paging;
use super::panic::EXIT_CODE;
use super::portal_code;
use super::power::{self, Power};
use super::pvh::{BootInfo, Kind, Memory, COMMAND_LINE_MAX};
use super::requests::{request_entry, spurious_entry, REQUEST_VECTOR};
use super::stretch;
use super::tables::{Builder, Image, NoMemory, EARLY_LIMIT};
use crate::arch::Frame;
use crate::boot::first_domain::{self, Archive};
use crate::boot::memory::{Frames, FreeMemory};
use crate::boot::options;
use crate::cores;
use crate::hasty::Handlers;
use crate::log::Line;
use crate::queue::{Lists, LISTS};
use crate::timer::Timers;
use crate::{Kernel, Storage};
use cairn_abi::state::SystemPage;
use cairn_abi::trace::SIZE;

/// Below this lies what the firmware may still use.
const LOW_MEMORY: u64 = 1 << 20;
/// Size of the log ring.
const LOG_FRAMES: u32 = 16;

/// Lists of each core's ready queue.
static READY: [Single<Lists>; cores::MOST] = [const { Single::new(LISTS) }; cores::MOST];
static TIMERS: Single<Timers> = Single::new(Timers::NONE);

/// What the first instructions mapped: the first 4 GiB, at the direct map.
struct EarlyMemory;

impl Memory for EarlyMemory {
    fn bytes(&self, address: u64, len: usize) -> Option<&'static [u8]> {
        let end = address.checked_add(len as u64)?;
        if end > EARLY_LIMIT as u64 * PAGE {
            return None;
        }
        // SAFETY: mapped by the first instructions; what the loader and the firmware left there is not written while it is read here.
        Some(unsafe { core::slice::from_raw_parts((DIRECT_MAP + address) as *const u8, len) })
    }
}

/// There is no going on: say why and leave.
fn fail(reason: &mut Line) -> ! {
    console::write(b"nucleus: cannot start: ");
    console::write(reason.text("\n").as_bytes());
    console::flush();
    power::exit(EXIT_CODE);
    cpu::halt()
}

/// The command line lies where the firmware pleased, perhaps out of the direct map.
fn keep(line: &'static [u8]) -> &'static [u8] {
    static KEPT: Single<[u8; COMMAND_LINE_MAX]> = Single::new([0; COMMAND_LINE_MAX]);
    // SAFETY: called once, and only here is the static named.
    let kept = unsafe { &mut *KEPT.get() };
    let len = line.len().min(kept.len());
    kept[..len].copy_from_slice(&line[..len]);
    &kept[..len]
}

fn no_memory<T>(_: NoMemory) -> T {
    fail(Line::new().text("not enough memory"))
}

/// The usable ranges of the machine, above the first MiB.
fn usable(info: &BootInfo) -> FreeMemory {
    let mut memory = FreeMemory::default();
    for (range, kind) in info.map() {
        if *kind == Kind::Usable {
            memory.add(Frames::inside(range.start.max(LOW_MEMORY), range.end));
        }
    }
    // What overlaps with something that is not usable is not.
    for (range, kind) in info.map() {
        if *kind != Kind::Usable {
            memory.remove(Frames::around(range.start, range.end));
        }
    }
    memory
}

/// Called by the first instructions, on the nucleus stack, with interrupts off.
pub extern "C" fn start(start_info: u64) -> ! {
    console::init();
    let lacks = |missing: &str| fail(Line::new().text("this processor lacks ").text(missing));
    let features = cpu::init().unwrap_or_else(lacks);
    if !features.local_apic {
        lacks("a local APIC");
    }
    let Some(mut info) = BootInfo::read(&EarlyMemory, start_info) else {
        fail(Line::new().hex("no usable start information at ", start_info));
    };
    if info.words().any(|word| word == b"nucleus.log=com1") {
        console::to_com1();
    }
    info.command_line = keep(info.command_line);
    let acpi = acpi::read(&EarlyMemory, info.rsdp);
    let image = Image::new();
    let archive_frames = match info.archive {
        Some(range) if range.start % PAGE == 0 => Frames::around(range.start, range.end),
        _ => fail(Line::new().text("no boot archive")),
    };
    let mut usable = usable(&info);
    // QEMU puts it close below the end of memory, where SeaBIOS keeps (and reserves) what it needs for each disk: with some disks they overlap. It came last.
    usable.include(archive_frames);
    let mut free = usable.clone();
    free.remove(image.all());
    free.remove(archive_frames);
    let ready = other_cores::prepare(&info);
    let processors = acpi.filter(|_| ready);
    let machine = machine(&mut free, &usable, &image, features, acpi, ready);
    run(machine, processors, info, archive_frames, usable, free)
}

/// What `machine` made.
struct Built {
    machine: Machine,
    system_page: SystemPage,
    /// Where ACPI's root pointer is.
    firmware: u64,
}

/// Page tables, descriptors, controllers, clock.
fn machine(
    free: &mut FreeMemory,
    usable: &FreeMemory,
    image: &Image,
    features: Features,
    acpi: Option<Acpi>,
    others: bool,
) -> Built {
    let acpi = acpi.unwrap_or_default();
    let mut builder = Builder::new(free).unwrap_or_else(no_memory);
    for range in usable.ranges() {
        builder
            .direct_map(*range, image, &features)
            .unwrap_or_else(no_memory);
    }
    if others {
        builder
            .direct_map(other_cores::page(), image, &features)
            .unwrap_or_else(no_memory);
    }
    builder
        .image(image, guard_pages())
        .unwrap_or_else(no_memory);
    builder.pools().unwrap_or_else(no_memory);
    let Some(apic_registers) = builder.device(apic::base()) else {
        fail(Line::new().text("not enough memory"));
    };
    let io_apic_registers = acpi
        .io_apic
        .and_then(|io_apic| builder.device(io_apic.address));
    let power = Power::new(&acpi, |physical| builder.device(physical));
    let root = builder.root();
    // SAFETY: the new tables map the image, the stack that is in use and the direct map.
    unsafe { cpu::load_root(root as u64 * PAGE) };
    let others = [
        (REQUEST_VECTOR, request_entry as *const () as u64),
        (apic::SPURIOUS_VECTOR, spurious_entry as *const () as u64),
    ];
    // SAFETY: nobody writes them.
    descriptors::init_interrupts(unsafe { &vector_stubs }, &others);
    descriptors::init(0, syscall_entry as *const () as u64);

    let clock = clock::calibrate(acpi.pm_timer);
    silence_pics();
    let mut apic = LocalApic::new(
        apic_registers.cast(),
        features.tsc_deadline,
        io_apic_registers.is_none(),
    );
    apic.calibrate(&clock);
    let lines = Lines::new(&acpi, io_apic_registers.map(|r| r.cast()), &apic);
    let wall = clock::wall_clock();
    let system_page = SystemPage {
        tsc_base: clock.base,
        tsc_mult: clock.mult,
        tsc_shift: clock.shift,
        boot_realtime: wall.saturating_sub(clock.now()),
        total_frames: usable.ranges().iter().map(|r| r.count() as u64).sum(),
        cores: 1,
        xsave_mask: features.xsave_mask,
        xsave_size: features.float_size as u64,
        tsc_hz: clock.hz,
    };
    Built {
        machine: Machine::new(apic, lines, clock, power, features, root),
        system_page,
        firmware: acpi.root,
    }
}

/// Take `count` frames and see them as zeroed memory for good.
fn take_zeroed(free: &mut FreeMemory, count: u32) -> (Frame, *mut u8) {
    let Some(first) = free.take(count, Frame::MAX) else {
        fail(Line::new().text("not enough memory"));
    };
    for frame in first..first + count {
        paging::zero(frame);
    }
    (first, frame_pointer(first))
}

/// Bytes that `nucleus.trace=KIB` asks for (at most 256 MiB).
fn trace_size(info: &BootInfo) -> usize {
    let kib = info.words().find_map(options::trace).unwrap_or(0);
    usize::min(kib, 256 << 10) << 10
}

/// Memory of the hasty handlers.
static HANDLERS: Single<Handlers> = Single::new(Handlers::new());

/// Make the nucleus and the first domain, and go.
fn run(
    built: Built,
    processors: Option<Acpi>,
    info: BootInfo,
    archive: Frames,
    usable: FreeMemory,
    mut free: FreeMemory,
) -> ! {
    let highest = usable.ranges().iter().map(|r| r.end).max().unwrap_or(0) as usize;
    let bytes = highest as u64 * 4;
    let (_, table) = take_zeroed(&mut free, bytes.div_ceil(PAGE) as u32);
    let (_, log) = take_zeroed(&mut free, LOG_FRAMES);
    let trace_bytes = trace_size(&info);
    let (_, trace) = take_zeroed(&mut free, (trace_bytes as u64).div_ceil(PAGE) as u32);
    let (system_frame, system_page) = take_zeroed(&mut free, 1);
    // SAFETY: the three runs were just taken out of free memory, zeroed and aligned to pages; nobody else will ever have them.
    let storage = unsafe {
        system_page.cast::<SystemPage>().write(built.system_page);
        Storage {
            frames: core::slice::from_raw_parts_mut(table.cast(), highest),
            log: core::slice::from_raw_parts_mut(log, (LOG_FRAMES as u64 * PAGE) as usize),
            handlers: &mut *HANDLERS.get(),
            trace: core::slice::from_raw_parts_mut(trace.cast(), trace_bytes / SIZE),
            ready: &mut *READY[0].get(),
            timers: &mut *TIMERS.get(),
        }
    };
    // SAFETY: the only call, before interrupts or user mode.
    let kernel = unsafe { glue::install(Kernel::new(built.machine, storage)) };
    kernel.boot_firmware(built.firmware);
    for word in info.words().filter(|word| !options::is_understood(word)) {
        let mut line = Line::new();
        line.text("nucleus: not understood: ").push(word);
        kernel.log(&line);
    }
    if !clock::is_steady() {
        kernel.log(
            Line::new()
                .text("nucleus: the time stamp counter may change its rate: times may be wrong"),
        );
    }
    let mut cores = 1;
    let hurry = info.words().any(|word| word == b"nucleus.hurry");
    if let Some(acpi) = processors {
        let waits = if hurry {
            &other_cores::HURRY
        } else {
            &other_cores::WAITS
        };
        // SAFETY: the only start, before user mode; each list is used here only, once.
        cores += unsafe {
            let lists = READY.iter().skip(1).map(|lists| &mut *lists.get());
            other_cores::start(kernel, acpi.processors(), waits, lists)
        };
        // SAFETY: the page is the nucleus's, and nobody reads it yet.
        unsafe { (*system_page.cast::<SystemPage>()).cores = cores as u64 };
    }
    // Which code is behind portals: for tests that compare.
    let portals = info
        .words()
        .find_map(|word| word.strip_prefix(b"nucleus.portals="));
    if portals == Some(b"several") {
        kernel.expect_several();
    }
    if kernel.several() {
        portal_code::with_lock();
    }
    match portals {
        Some(b"general") => {
            portal_code::general_only(false);
            kernel.general_way_only();
        }
        Some(b"none") => {
            portal_code::general_only(true);
            kernel.shared_code_only();
        }
        Some(b"shared") => kernel.shared_code_only(),
        _ => {}
    }
    if kernel.several() {
        glue::several();
    }

    let logs_code = info.words().any(|word| word == b"nucleus.code=log");
    if logs_code {
        code_log::begin();
    }
    let measures = info.words().any(|word| word == b"nucleus.stretch");
    if measures {
        // SAFETY: one processor runs.
        unsafe { stretch::begin() };
    }
    // What nobody uses any more when boot is over: boot's own, and the stacks of processors that are not there.
    let later = [
        Image::new().init(logs_code || measures),
        descriptors::stacks_from(cores),
    ];

    let length = info.archive.map_or(0, |range| range.end - range.start) as usize;
    let start = frame_pointer(archive.first);
    // SAFETY: the archive's frames are memory and not free. Bytes behind its end in its last page are cleared: they would be shown to programs.
    let bytes = unsafe {
        let padding = archive.count() as usize * PAGE as usize - length;
        start.add(length).write_bytes(0, padding);
        core::slice::from_raw_parts(start, length)
    };
    let archive = Archive {
        bytes,
        first: archive.first,
    };
    if let Err(error) = first_domain::start(
        kernel,
        archive,
        info.command_line,
        usable.ranges(),
        free,
        later,
        system_frame,
    ) {
        fail(Line::new().text("no first domain: ").text(error.text()));
    }
    // SAFETY: the nucleus is installed and everything is loaded; nothing of boot is used from here on.
    unsafe { boot_end::end(kernel, cores - 1, later) }
}
