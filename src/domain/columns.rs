//! Tables of text for a terminal.

use std::fmt::Write as _;

/// Columns as wide as their widest cell, two spaces between; one line each, the head first.
#[must_use]
pub fn aligned<const N: usize>(head: [&str; N], lines: &[[String; N]]) -> String {
    let head = head.map(str::to_owned);
    let all = || std::iter::once(&head).chain(lines);
    let width = |column: usize| all().map(|line| line[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for line in all() {
        let begin = text.len();
        for (cell, width) in line.iter().zip(widths) {
            write!(text, "{cell:width$}  ").expect("a string takes every byte");
        }
        text.truncate(begin + text[begin..].trim_end().len());
        text.push('\n');
    }
    text
}
