//! Suite `image`: what is looked at in the built programs, without a machine.

use super::Report;
use crate::portal_code;
use anyhow::Result;
use std::time::Instant;

pub fn run(report: &mut Report) -> Result<()> {
    let name = "image/portal-code";
    if !report.wants(name) {
        return Ok(());
    }
    let begun = Instant::now();
    let verdict = portal_code::built()?
        .iter()
        .try_for_each(|code| code.check().map(|_| ()));
    report.result(name, begun.elapsed(), verdict);
    Ok(())
}
