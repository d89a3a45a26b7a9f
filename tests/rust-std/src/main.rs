//! A static Rust std program that uses what such programs use: files, directories, threads, channels, child processes, environment, time. Its output is the same on every system.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("child") {
        return child();
    }
    files()?;
    threads();
    processes()?;
    time();
    println!("done");
    Ok(())
}

fn files() -> io::Result<()> {
    let root = std::env::temp_dir().join("rust-std-check");
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(root.join("a/b/c"))?;
    let path = root.join("a/file");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    for i in 0..1000 {
        writeln!(file, "line {i}")?;
    }
    file.seek(SeekFrom::Start(0))?;
    println!("lines: {}", BufReader::new(&file).lines().count());
    file.set_len(20)?;
    println!("length: {}", file.metadata()?.len());
    println!(
        "again: {:?}",
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|e| e.kind())
            .err()
    );
    fs::copy(&path, root.join("a/copy"))?;
    fs::rename(root.join("a/copy"), root.join("a/b/moved"))?;
    fs::hard_link(&path, root.join("link"))?;
    std::os::unix::fs::symlink("a/b", root.join("short"))?;
    println!("link: {:?}", fs::read_link(root.join("short"))?);
    println!(
        "moved: {:?}",
        fs::read_to_string(root.join("short/moved"))?.lines().next()
    );
    let mut names: Vec<_> = fs::read_dir(root.join("a"))?
        .map(|e| e.map(|e| e.file_name()))
        .collect::<Result<_, _>>()?;
    names.sort();
    println!("names: {names:?}");
    println!(
        "missing: {:?}",
        File::open(root.join("nothing")).map_err(|e| e.kind()).err()
    );
    println!(
        "directory: {:?}",
        fs::remove_dir(root.join("a"))
            .map_err(|e| e.raw_os_error())
            .err()
    );
    fs::remove_dir_all(&root)?;
    println!("gone: {}", !root.exists());
    Ok(())
}

fn threads() {
    let (sender, receiver) = mpsc::channel();
    let workers: Vec<_> = (0..8u64)
        .map(|i| {
            let sender = sender.clone();
            thread::spawn(move || (0..100).for_each(|n| sender.send(i * n).unwrap()))
        })
        .collect();
    drop(sender);
    println!("sum: {}", receiver.iter().sum::<u64>());
    workers.into_iter().for_each(|w| w.join().unwrap());

    let total = Arc::new(AtomicU64::new(0));
    let table = Arc::new(RwLock::new(HashMap::new()));
    let barrier = Arc::new(Barrier::new(6));
    thread::scope(|scope| {
        for i in 0..6u64 {
            let (total, table, barrier) = (&total, &table, &barrier);
            scope.spawn(move || {
                barrier.wait();
                table.write().unwrap().insert(i, i * i);
                barrier.wait();
                total.fetch_add(
                    table.read().unwrap().values().sum::<u64>(),
                    Ordering::SeqCst,
                );
            });
        }
    });
    println!("total: {}", total.load(Ordering::SeqCst));

    let pair = Arc::new((Mutex::new(0), Condvar::new()));
    let other = pair.clone();
    let waiter = thread::spawn(move || {
        let mut value = other.0.lock().unwrap();
        while *value < 10 {
            value = other.1.wait(value).unwrap();
        }
        *value
    });
    for _ in 0..10 {
        *pair.0.lock().unwrap() += 1;
        pair.1.notify_all();
    }
    println!("waited for: {}", waiter.join().unwrap());
    let named = thread::Builder::new()
        .name("named".into())
        .stack_size(256 * 1024)
        .spawn(|| thread::current().name().map(str::to_owned));
    println!("name: {:?}", named.unwrap().join().unwrap());
}

fn processes() -> io::Result<()> {
    let me = std::env::current_exe()?;
    let mut child = Command::new(&me)
        .arg("child")
        .env("COLOUR", "green")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut input = child.stdin.take().unwrap();
    let feeder = thread::spawn(move || input.write_all(&vec![b'x'; 300_000]));
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output)?;
    feeder.join().unwrap()?;
    print!("{output}");
    println!("status: {:?}", child.wait()?.code());
    println!(
        "absent: {:?}",
        Command::new("/no/such/program")
            .spawn()
            .map_err(|e| e.kind())
            .err()
    );
    let echo = Command::new("/bin/sh")
        .args(["-c", "echo from the shell; exit 3"])
        .output()?;
    println!(
        "shell: {:?} {:?}",
        String::from_utf8_lossy(&echo.stdout),
        echo.status.code()
    );
    Ok(())
}

fn child() -> io::Result<()> {
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    println!(
        "child: {} bytes, {:?}, in {:?}",
        bytes.len(),
        std::env::var("COLOUR").ok(),
        std::env::current_dir()?
    );
    eprintln!("to nowhere");
    std::process::exit(12)
}

fn time() {
    let start = Instant::now();
    thread::sleep(Duration::from_millis(30));
    println!("slept: {}", start.elapsed() >= Duration::from_millis(30));
    println!(
        "after 2020: {}",
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .is_ok_and(|d| d.as_secs() > 1_577_836_800)
    );
    println!("cores: {}", thread::available_parallelism().is_ok());
}
