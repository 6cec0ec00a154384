//! TCP and UDP ports that no other test takes meanwhile.
//!
//! Asking the kernel for a free port and closing it again is a race: another test, or an outgoing
//! connection, may get it before the program binds. So ports come from outside the kernel's
//! ephemeral range, and a lock on a file per port keeps other test processes away. The kernel gives
//! the lock back when the process dies, whatever the reason.

use std::fs::{self, File};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process;

/// Above the well-known services of a developer's machine.
const LOWEST: u16 = 12_000;

/// A port that is ours, on every loopback address, until this is dropped.
pub(crate) struct Port {
    number: u16,
    /// Holds the lock.
    _lock: File,
}

impl Port {
    /// Reserves a port that can be bound on `address`, for TCP and for UDP (Consul needs both).
    pub(crate) fn reserve(address: IpAddr) -> Self {
        let locks = lock_folder();
        let candidates = candidates();
        // Test processes start their search apart, so that they seldom meet.
        let first = process::id() as usize * 37 % candidates.len();
        candidates[first..]
            .iter()
            .chain(&candidates[..first])
            .find_map(|&number| try_reserve(&locks, address, number))
            .expect("fewer tests run at once than there are ports")
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

fn try_reserve(locks: &std::path::Path, address: IpAddr, number: u16) -> Option<Port> {
    let lock = File::create(locks.join(number.to_string())).ok()?;
    lock.try_lock().ok()?;
    TcpListener::bind((address, number)).ok()?;
    UdpSocket::bind((address, number)).ok()?;
    Some(Port {
        number,
        _lock: lock,
    })
}

fn lock_folder() -> PathBuf {
    let folder = std::env::temp_dir().join("tidegate-test-ports");
    fs::create_dir_all(&folder).expect("the machine's temporary folder is writable");
    folder
}

/// The ports from `LOWEST` up that the kernel does not hand out by itself.
fn candidates() -> Vec<u16> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .expect("Linux states its ephemeral range");
    let range: Vec<u16> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [low, high] = range[..] else {
        panic!("two ports expected as the range: {text:?}")
    };
    (LOWEST..=u16::MAX)
        .filter(|port| !(low..=high).contains(port))
        .collect()
}
