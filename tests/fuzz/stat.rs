//! Fuzzes the reader of `/proc/PID/stat` (`crates/supervise/src/proc.rs`).

use super::{Life, parse_stat};
use crate::fuzz::{Target, fuzz, text};

#[test]
fn the_stat_of_a_process_is_read_whatever_its_name() {
    let seeds = [
        "41 (a name) S 1 41 41 0 -1 4194304 1 0 0 0 30 12 0 0 20 0 1 0 12345 4096 7 1 2\n",
        "41 (a) S 9 (b) Z 7 41 41 0 -1 64 1 0 0 0 0 0 0 0 20 0 2 0 18446744073709551615 1 1\n",
    ];
    let dictionary = &["(", ")", ") S 1 ", ") Z", " 0", " -1", "\n"];
    let target = Target { dictionary, inputs: 6000, ..Target::new("stat", &seeds) };
    fuzz(target, |input| {
        // The name of the process is the input.
        let rest = b") S 7 41 41 0 -1 4194368 1 0 0 0 30 12 0 0 20 0 1 0 12345 4096 7 1 2\n";
        let named = [b"41 (", input, rest].concat();
        let stat = parse_stat(&named).expect("it is a stat line");
        assert_eq!(stat.comm, text(input));
        assert_eq!((stat.parent, stat.start_ticks, stat.life), (7, 12345, Life::Running));
        assert!(stat.is_forked_without_exec);
        // Anything.
        let stat = parse_stat(input);
        format!("{:?}", stat.map(|stat| (stat.life, stat.is_forked_without_exec)))
    });
}
