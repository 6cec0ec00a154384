//! What the programs that compare responders have in common.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// The one in the middle.
pub(crate) fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Keeps a process, or the calling thread, to one core, where there are two: who asks must not
/// stand in the way of who answers. Threads that a process has started already are kept as well.
pub(crate) fn pin(process: Option<u32>, core: usize) {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    let mut set = CpuSet::new();
    set.set(core);
    let Some(process) = process else {
        return sched_setaffinity(None, &set).expect("a thread may choose its core");
    };
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    for task in tasks {
        let name = task.expect("it can be read").file_name();
        let id = name.to_string_lossy().parse().ok().and_then(Pid::from_raw);
        // A thread may have ended meanwhile.
        let _ = sched_setaffinity(id, &set);
    }
}

/// A setting of the environment.
pub(crate) fn number<T: std::str::FromStr>(variable: &str, default: T) -> T {
    let Ok(text) = std::env::var(variable) else {
        return default;
    };
    text.parse()
        .unwrap_or_else(|_| panic!("{variable}={text}: a whole number expected"))
}
