//! Suite `image`: what is looked at in the built programs, without a machine.

use super::Report;
use crate::{build, nucleus_text, portal_code};
use anyhow::Result;
use std::time::Instant;

pub fn run(report: &Report) -> Result<()> {
    let name = "image/portal-code";
    if report.wants(name) {
        let begun = Instant::now();
        let verdict = portal_code::built()?
            .iter()
            .try_for_each(|code| code.check().map(|_| ()));
        report.result(name, begun.elapsed(), verdict);
    }
    let name = "image/boot-text";
    if report.wants(name) {
        let begun = Instant::now();
        // What is looked at must be built first.
        build::system()?;
        let verdict = nucleus_text::check()?;
        report.result(name, begun.elapsed(), verdict);
    }
    Ok(())
}
