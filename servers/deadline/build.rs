include!("../../lib/rt/link.rs");
