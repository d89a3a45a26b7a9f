//! When a table of places is made smaller: once most places are free, behind the last one in use. Each thing that goes has paid for the look at 64 places, so
//! nobody waits for more.

#[derive(Default)]
pub struct Shrink {
    /// Things that went and have not been spent on a look.
    gone: usize,
}

impl Shrink {
    #[inline]
    pub fn one_went(&mut self) {
        self.gone += 1;
    }

    /// How many of these places the table is to keep. None: it stays as it is. (One of fewer than `few` places always does.)
    #[inline]
    pub fn keep(
        &mut self,
        few: usize,
        in_use: usize,
        places: usize,
        last: impl FnOnce() -> Option<usize>,
    ) -> Option<usize> {
        if places < few || in_use * 4 > places || self.gone * 64 < places {
            return None;
        }
        let keep = last().map_or(0, |at| at + 1);
        self.gone = self.gone.saturating_sub((places - keep) / 64);
        (keep * 2 <= places).then_some(keep)
    }
}
