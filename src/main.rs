//! The program: parse, call, print one error, exit code.

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    match tidegate::cli::run(std::env::args_os()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.text.is_empty() {
                // Nobody is left to tell when standard error is gone.
                let _ = writeln!(std::io::stderr(), "error: {failure}");
            }
            ExitCode::from(failure.exit as u8)
        }
    }
}
