//! When a table of places is made smaller: once most places are free, behind the last one in use. Each thing that goes has paid for the look at 64 places, so
//! nobody waits for more; where the last look ended the next one goes on.

#[derive(Default)]
pub struct Shrink {
    /// Things that went and have not been spent on a look.
    gone: usize,
    /// Nothing is in places from here on.
    end: usize,
}

impl Shrink {
    /// Something is in this place from now on.
    #[inline]
    pub fn one_came(&mut self, place: usize) {
        self.end = self.end.max(place + 1);
    }

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
        is_used: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if places < few || in_use * 4 > places {
            return None;
        }
        let mut looks = self.gone * 64;
        while looks != 0 && self.end != 0 && !is_used(self.end - 1) {
            self.end -= 1;
            looks -= 1;
        }
        self.gone = looks / 64;
        (self.end * 2 <= places).then_some(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_of_what_went_in_any_order() {
        for step in [1, 7, 4999] {
            let (mut table, mut shrink) = (vec![true; 10_000], Shrink::default());
            shrink.one_came(table.len() - 1);
            let mut in_use = table.len();
            for turn in 0..10_000 {
                table.resize(10_000, false);
                table[turn * step % 10_000] = false;
                in_use -= 1;
                shrink.one_went();
                let is_used = |place: usize| table[place];
                if let Some(places) = shrink.keep(8, in_use, 10_000, is_used) {
                    assert!(table[places..].iter().all(|used| !used));
                    assert!(places <= 5_000);
                }
            }
            assert_eq!(shrink.keep(8, 0, 10_000, |_| false), Some(0), "step {step}");
        }
    }

    #[test]
    fn a_look_is_paid_for() {
        let mut shrink = Shrink::default();
        shrink.one_came(9_999);
        let looks = core::cell::Cell::new(0);
        let is_used = |_| {
            looks.set(looks.get() + 1);
            false
        };
        for went in 1..=10 {
            shrink.one_went();
            shrink.keep(8, 0, 10_000, is_used);
            assert!(looks.get() <= went * 65);
        }
    }
}
