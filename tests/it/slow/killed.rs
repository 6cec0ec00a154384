//! A command that is killed at many moments.

use std::time::{Duration, Instant};

use crate::follows::commands::Place;
use crate::harness::folder::Folder;
use crate::harness::tidegate::consul_environment;
use crate::harness::wait::let_pass;
use crate::operators::killed::{SET, complete, parts_written, set_up_many, start};

/// How many moments, over twice the time that the command takes: this machine may be slower then.
const MOMENTS: u32 = 40;

#[test]
fn at_whatever_moment_a_command_is_killed_each_part_is_whole_or_not_there() {
    let begin = Instant::now();
    let whole = {
        let place = Place::consul();
        set_up_many(&place);
        let begin = Instant::now();
        place.done(&SET);
        begin.elapsed()
    };
    let mut seen = [0_u32; 4];
    let place = Place::consul();
    let Place::Consul(consul) = &place else {
        unreachable!("it is a Consul")
    };
    for moment in 0..MOMENTS {
        consul.kv_delete_recurse("frontend/gprd/");
        consul.kv_delete_recurse("frontend-history/gprd/");
        set_up_many(&place);
        let folder = Folder::new("killed");
        let mut command = start(&folder, &consul_environment(consul));
        let_pass(whole * moment * 2 / MOMENTS);
        command.kill();
        // What it has sent is applied whether it lives or not.
        let_pass(Duration::from_millis(20));
        let parts = parts_written(&place);
        seen[parts] += 1;
        complete(&place);
    }
    println!(
        "{MOMENTS} kills over {whole:?}: parts written {seen:?}, in {:?}",
        begin.elapsed()
    );
    let moments = seen.iter().filter(|count| **count > 0).count();
    assert!(moments >= 2, "only one moment was met: {seen:?}");
}
