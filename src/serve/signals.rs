//! What the service is told by signals.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// SIGTERM: stop, after every balancer has noticed.
    Terminate,
    /// SIGINT: stop now, in order.
    Interrupt,
    /// SIGHUP: read files anew.
    Reload,
}

/// The signals that the service takes.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next order.
    pub(super) async fn next(&mut self) -> Order {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Order::Terminate,
            _ = self.interrupt.recv() => Order::Interrupt,
            _ = self.hangup.recv() => Order::Reload,
        }
    }

    /// The next order to end.
    pub(super) async fn end(&mut self) {
        while self.next().await == Order::Reload {}
    }
}

impl Order {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
            Self::Reload => "SIGHUP",
        }
    }
}
