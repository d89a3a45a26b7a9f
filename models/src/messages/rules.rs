//! What must hold of messages, said without regard to how a step is done.

use super::{Action, Outcome, Place, Setup, State, C, NOTE, OWN, T};

fn demand(holds: bool, rule: impl FnOnce() -> String) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(rule())
    }
}

fn waits_for_reply(place: Place) -> bool {
    matches!(place, Place::Sending(_) | Place::Held(..))
}

impl Setup {
    /// Rules about one state.
    pub fn check_state(&self, s: &State) -> Result<(), String> {
        for t in self.numbers() {
            self.check_thread(s, t)?;
            demand(!self.waits_for_itself(s, t), || {
                format!("thread {t} waits for itself")
            })?;
        }
        // With no ring of waiting the priorities can be said from scratch.
        for t in self.numbers() {
            let deserved = self.deserved_anew(s, t);
            demand(
                s[t].place == Place::Dead || s[t].effective == deserved,
                || {
                    format!(
                        "thread {t} runs at {} and deserves {deserved}",
                        s[t].effective
                    )
                },
            )?;
        }
        for c in 0..self.channels as C {
            self.check_channel(s, c)?;
        }
        Ok(())
    }

    fn check_thread(&self, s: &State, t: T) -> Result<(), String> {
        let thread = &s[t];
        let alive = |other: T| s[other].place != Place::Dead;
        let channel = |c: C| &s.channels[c as usize];
        match thread.place {
            Place::Held(c, server) => {
                demand(channel(c).open, || {
                    format!("thread {t} is held by a closed channel")
                })?;
                if let Some(server) = server {
                    demand(alive(server), || format!("thread {t} waits for a dead one"))?;
                    demand(s[server].client == Some(t), || {
                        format!("thread {t} is worked for by one that does not know")
                    })?;
                }
            }
            Place::Sending(c) => {
                demand(channel(c).open, || {
                    format!("thread {t} queues at a closed channel")
                })?;
                demand(channel(c).senders.contains(t), || {
                    format!("thread {t} queues where nobody will find it")
                })?;
            }
            Place::Receiving(c) => {
                demand(channel(c).open, || {
                    format!("thread {t} receives from a closed channel")
                })?;
                demand(
                    channel(c).receivers.contains(t) && thread.client.is_none(),
                    || format!("thread {t} receives where nobody will find it"),
                )?;
            }
            Place::Dead => demand(thread.client.is_none() && thread.serving.is_none(), || {
                format!("the dead thread {t} serves")
            })?,
            Place::Able => {}
        }
        if let Some(client) = thread.client {
            demand(
                matches!(s[client].place, Place::Held(_, Some(server)) if server == t),
                || format!("thread {t} works for {client}, which does not wait for it"),
            )?;
        }
        if let Some((token, false)) = thread.notice {
            demand(
                matches!(thread.place, Place::Held(..)) && thread.token == token,
                || format!("an interruption of thread {t} is told, but its call is over"),
            )?;
        }
        Ok(())
    }

    fn check_channel(&self, s: &State, c: C) -> Result<(), String> {
        let channel = &s.channels[c as usize];
        if !channel.receivers.is_empty() {
            demand(channel.senders.is_empty(), || {
                format!("a sender and a receiver wait at channel {c}")
            })?;
            demand(channel.pulses.is_empty(), || {
                format!("a pulse and a receiver wait at channel {c}")
            })?;
        }
        demand(channel.noted == channel.pulses.contains(NOTE), || {
            format!("a NOTIFY at channel {c} is lost")
        })?;
        for &source in channel.pulses.as_slice() {
            demand(source == NOTE || s[source].notice.is_some(), || {
                format!("a pulse at channel {c} has nothing to say")
            })?;
        }
        for &t in channel.senders.as_slice() {
            demand(s[t].place == Place::Sending(c), || {
                format!("thread {t} is queued and does not send")
            })?;
        }
        if let Some(server) = channel.server {
            demand(s[server].serving == Some(c), || {
                format!("the server of channel {c} serves something else")
            })?;
        }
        Ok(())
    }

    /// Which thread must do something before this one can go on? (Whoever may receive from the channel can answer a caller that was put off, so that one waits for
    /// nobody in particular.)
    fn waits_for(&self, s: &State, t: T) -> Option<T> {
        match s[t].place {
            Place::Held(_, server) => server,
            Place::Sending(c) => s.channels[c as usize].server,
            _ => None,
        }
    }

    fn waits_for_itself(&self, s: &State, t: T) -> bool {
        let mut at = t;
        for _ in self.numbers() {
            match self.waits_for(s, at) {
                Some(next) if next == t => return true,
                Some(next) => at = next,
                None => return false,
            }
        }
        false
    }

    /// The priority that a thread deserves: that of the caller that it works for, or its own, but no more than that of a caller that has gone or that it
    /// was told of; at least that of everybody who queues where it serves; as far as its own that of the most important pulse that waits there.
    fn deserved_anew(&self, s: &State, t: T) -> u8 {
        let mut priority = match s[t].client {
            Some(client) => self.deserved_anew(s, client),
            None => self.base(t).min(s[t].behalf),
        };
        if let Some(c) = s[t].serving {
            let channel = &s.channels[c as usize];
            priority = priority.max(self.base(t).min(channel.cause));
            for &sender in channel.senders.as_slice() {
                priority = priority.max(self.deserved_anew(s, sender));
            }
        }
        priority
    }

    /// Rules about one step.
    pub fn check_step(
        &self,
        before: &State,
        action: Action,
        after: &State,
        told: &[(T, Outcome)],
    ) -> Result<(), String> {
        for t in self.numbers() {
            self.check_answers(before, action, after, told, t)?;
        }
        self.check_behalf(before, action, after, told)?;
        for &(receiver, outcome) in told {
            if let Outcome::Message(t, token) = outcome {
                demand(token > before[t].token, || {
                    format!("thread {receiver} got a token of thread {t} that was used before")
                })?;
                // (REPLY_RECEIVE answers first, which may change who is important.)
                if let (Place::Sending(c), Action::Receive(..)) = (before[t].place, action) {
                    let better = before.channels[c as usize]
                        .senders
                        .as_slice()
                        .iter()
                        .any(|&other| before[other].effective > before[t].effective);
                    demand(!better, || {
                        format!("thread {t} was received before somebody more important")
                    })?;
                }
            }
        }
        if let Action::Reply(_, c, caller, token) | Action::ReplyReceive(_, c, caller, token) =
            action
        {
            let waited = matches!(before[caller].place, Place::Held(at, _) if at == c)
                && before[caller].token == token;
            let answered = told.contains(&(caller, Outcome::Replied));
            demand(answered == waited, || {
                format!("token {token} of thread {caller} at channel {c}: waited {waited}, answered {answered}")
            })?;
        }
        if let Action::DomainDies(d) = action {
            for t in self.numbers() {
                if let Place::Held(c, _) = after[t].place {
                    let home = before.channels[c as usize].home;
                    demand(home != Some(d), || {
                        format!("thread {t} is held by the dead domain {d}")
                    })?;
                }
            }
        }
        Ok(())
    }

    /// A server whose caller goes, or was answered, works at that caller's priority, as who is told of a caller does; who receives a message or another
    /// pulse, or waits, at its caller's or its own.
    fn check_behalf(
        &self,
        before: &State,
        action: Action,
        after: &State,
        told: &[(T, Outcome)],
    ) -> Result<(), String> {
        let works_at = |t: T, expected: u8| {
            let expected = self.behalf(t, expected);
            demand(after[t].behalf == expected, || {
                format!("thread {t} works at {}, not at {expected}", after[t].behalf)
            })
        };
        let actor = match action {
            Action::Notify(t, _) | Action::Poke(t) | Action::Expire(t) | Action::Kill(t) => Some(t),
            _ => None,
        };
        let acted = actor.map_or(0, |t| before[t].effective);
        for &(t, outcome) in told {
            match (outcome, action) {
                (Outcome::Pulse(NOTE), _) | (Outcome::Message(..), _) => works_at(t, OWN)?,
                (Outcome::Pulse(source), Action::Receive(..)) => works_at(t, before[source].cause)?,
                _ => {}
            }
        }
        if let (Action::Expire(t) | Action::Kill(t), Some(Place::Held(_, Some(server)))) =
            (action, actor.map(|t| before[t].place))
        {
            if after[server].place != Place::Dead && server != t {
                works_at(server, acted)?;
            }
        }
        if let Action::Reply(_, _, caller, _) = action {
            if let (Place::Held(_, Some(server)), false) = (
                before[caller].place,
                matches!(after[caller].place, Place::Held(..)),
            ) {
                works_at(server, before[caller].effective)?;
            }
        }
        for t in self.numbers() {
            if matches!(after[t].place, Place::Receiving(_)) {
                works_at(t, OWN)?;
            }
        }
        Ok(())
    }

    /// A caller is told exactly once how its call ended, and its server that it is gone.
    fn check_answers(
        &self,
        before: &State,
        action: Action,
        after: &State,
        told: &[(T, Outcome)],
        t: T,
    ) -> Result<(), String> {
        if !waits_for_reply(before[t].place) {
            return Ok(());
        }
        let outcomes = told
            .iter()
            .filter(|&&(who, outcome)| who == t && !matches!(outcome, Outcome::Done))
            .count();
        let expected = match after[t].place {
            // Nobody is left to be told.
            Place::Dead => outcomes,
            place if waits_for_reply(place) => 0,
            _ => 1,
        };
        demand(outcomes == expected, || {
            format!("thread {t} was told {outcomes} times how its call ended, not {expected}")
        })?;
        let Place::Held(c, _) = before[t].place else {
            return Ok(());
        };
        let gone = match action {
            Action::Expire(who) | Action::Kill(who) => who == t,
            _ => false,
        };
        if gone && before.channels[c as usize].open {
            let heard = after[t].notice == Some((before[t].token, true))
                || told
                    .iter()
                    .any(|&(_, outcome)| outcome == Outcome::Pulse(t));
            demand(heard, || {
                format!("channel {c} does not hear that its caller {t} is gone")
            })?;
        }
        Ok(())
    }
}
