//! What a name space may have of each thing, as /proc/sys/kernel shows it, and how much it has.

use crate::mq;
use cairn_idl::ipc::Limits as Which;

#[derive(Clone, Debug)]
pub struct Limits {
    pub shmmax: u64,
    pub shmall: u64,
    pub shmmni: u64,
    pub msgmax: u64,
    pub msgmnb: u64,
    pub msgmni: u64,
    pub semmsl: u64,
    pub semmns: u64,
    pub semopm: u64,
    pub semmni: u64,
    /// Of POSIX message queues: messages and bytes of each, the most and without attributes; queues.
    pub mq_most: (u64, u64),
    pub mq_default: (u64, u64),
    pub mq_queues: u64,
}

/// Largest value of a semaphore, and of what is undone.
pub const SEMVMX: i32 = 32767;
/// Most things of one kind: identifiers have so many places.
pub const PLACES: u64 = 32768;
/// Most bytes of a message, whatever the limit says.
const MESSAGE_MOST: u64 = 64 << 20;
const INT_MAX: u64 = i32::MAX as u64;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            shmmax: u64::MAX - (1 << 24),
            shmall: u64::MAX - (1 << 24),
            shmmni: 4096,
            msgmax: 8192,
            msgmnb: 16384,
            msgmni: 32000,
            semmsl: 32000,
            semmns: 1_024_000_000,
            semopm: 500,
            semmni: 32000,
            mq_most: mq::MOST,
            mq_default: mq::DEFAULT,
            mq_queues: mq::QUEUES,
        }
    }
}

impl Limits {
    /// Its place, the most and the least that it can be; None: no limit, but an identifier that is wished.
    fn place(&mut self, which: Which) -> Option<(&mut u64, u64, u64)> {
        let (place, most) = match which {
            Which::MqMsgMax => return Some((&mut self.mq_most.0, mq::HARD.0, 1)),
            Which::MqMsgsizeMax => return Some((&mut self.mq_most.1, mq::HARD.1, mq::SIZE_LEAST)),
            Which::MqMsgDefault => return Some((&mut self.mq_default.0, mq::HARD.0, 1)),
            Which::MqMsgsizeDefault => {
                return Some((&mut self.mq_default.1, mq::HARD.1, mq::SIZE_LEAST))
            }
            Which::MqQueuesMax => (&mut self.mq_queues, INT_MAX),

            Which::Shmmax => (&mut self.shmmax, u64::MAX),
            Which::Shmall => (&mut self.shmall, u64::MAX),
            Which::Shmmni => (&mut self.shmmni, PLACES),
            Which::Msgmax => (&mut self.msgmax, MESSAGE_MOST),
            Which::Msgmnb => (&mut self.msgmnb, INT_MAX),
            Which::Msgmni => (&mut self.msgmni, PLACES),
            Which::Semmsl => (&mut self.semmsl, 65536),
            Which::Semmns => (&mut self.semmns, INT_MAX),
            Which::Semopm => (&mut self.semopm, 65536),
            Which::Semmni => (&mut self.semmni, PLACES),
            Which::ShmNextId | Which::SemNextId | Which::MsgNextId => return None,
        };
        Some((place, most, 0))
    }

    pub fn get(&mut self, which: Which) -> Option<u64> {
        self.place(which).map(|place| *place.0)
    }

    /// False: more or less than there can be.
    pub fn set(&mut self, which: Which, value: u64) -> bool {
        let Some((place, most, least)) = self.place(which) else {
            return false;
        };
        let may = (least..=most).contains(&value);
        if may {
            *place = value;
        }
        may
    }
}
