//! All states of the model of derivation and revocation, and the proof that its rules can be broken.

use cairn_models::explore::explore;
use cairn_models::rights::{Fault, Setup};

#[test]
fn what_came_from_a_revoked_portal_is_gone() {
    for (objects, callers) in [(4, 0), (3, 2)] {
        let setup = Setup {
            objects,
            slots: 4,
            callers,
            fault: None,
        };
        match explore(&setup, 3_000_000) {
            Ok(seen) => println!("{objects} objects, {callers} callers: {seen:?}"),
            Err(broken) => panic!("{}\n{:#?}", broken.rule, broken.way),
        }
    }
}

#[test]
fn every_fault_is_found() {
    for fault in Fault::ALL {
        let setup = Setup {
            objects: 4,
            slots: 4,
            callers: 1,
            fault: Some(fault),
        };
        match explore(&setup, 3_000_000) {
            Ok(_) => panic!("{fault:?} breaks no rule"),
            Err(broken) => {
                assert!(!broken.way.is_empty(), "{fault:?}: {}", broken.rule);
                println!("{fault:?}: {} after {:?}", broken.rule, broken.way);
            }
        }
    }
}
