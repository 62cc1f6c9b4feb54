//! Limits of the container and of the pod: memory for the checks, and the process namespace.

use std::fs;
use std::path::Path;

use crate::process::Context;
use podnudge_config::{Condition, Rule, Syntax};
use podnudge_core::preflight::{Problem, ProblemKind};
use podnudge_core::reason::Reason;

const MIB: u64 = 1024 * 1024;
/// What podnudge needs without a check (SPECIFICATION.md).
const WITHOUT_CHECKS: u64 = 5 * MIB;
/// How often the content of a file may be in memory.
const COPIES: u64 = 3;
/// What a parser needs at most: it refuses what needs more.
const MAX_PARSER: u64 = 10 * MIB;
/// The most files of a volume that are looked at.
const MAX_FILES: usize = 1000;

/// A check of the syntax may need more memory than the container may use.
pub(super) fn memory(rule: &Rule) -> Option<Problem> {
    let factor = rule.checks.iter().filter_map(|check| match check.condition {
        Condition::Syntax(syntax) => Some(memory_per_byte(syntax)),
        _ => None,
    });
    let factor = factor.max()?;
    let limit = limit()?;
    let largest = rule.settings.watch.iter().filter_map(|path| largest_file(path)).max()?;
    let needed = WITHOUT_CHECKS + COPIES * largest + (factor * largest).min(MAX_PARSER);
    if needed <= limit {
        return None;
    }
    let message = format!(
        "podnudge may use {} MiB of memory, and a check of the largest file ({} KiB) may need {} MiB",
        limit / MIB,
        largest.div_ceil(1024),
        needed.div_ceil(MIB)
    );
    let hint = format!(
        "set resources: {{limits: {{memory: {}Mi}}}} for podnudge's container, or split the file",
        needed.div_ceil(MIB)
    );
    Some(Problem::new(ProblemKind::MemoryLimit, Reason::new(message).hint(hint)))
}

/// How many bytes of memory a parser may need for a byte of input, with the worst content.
fn memory_per_byte(syntax: Syntax) -> u64 {
    match syntax {
        Syntax::Toml | Syntax::Yaml => 210,
        Syntax::Json => 1,
        Syntax::Pem => 10,
    }
}

/// The limit of podnudge's control group in bytes, if there is one: cgroup v2, or v1.
fn limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let files = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (kind, group) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        let (root, file) = match kind {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        // In a container the root may be the group itself, under the name that it has outside.
        Some([Path::new(root).join(group).join(file), Path::new(root).join(file)])
    });
    files.flatten().find_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
}

fn largest_file(path: &Path) -> Option<u64> {
    let found = fs::metadata(path).ok()?;
    if found.is_file() {
        return Some(found.len());
    }
    let files = fs::read_dir(path).ok()?.flatten().take(MAX_FILES);
    let sizes = files.filter_map(|file| fs::metadata(file.path()).ok());
    sizes.filter(fs::Metadata::is_file).map(|found| found.len()).max()
}

/// podnudge sees the processes of the whole node, and may choose one of another pod.
pub(super) fn host_pid(context: &Context, rule: &Rule) -> Option<Problem> {
    if !rule.names_process() || !context.sees_node() {
        return None;
    }
    let message = "podnudge sees the processes of the whole node: the pod has hostPID: true";
    let hint = "set shareProcessNamespace: true in place of hostPID: podnudge acts only on processes of \
                its pod, and needs to see no others";
    Some(Problem::new(ProblemKind::HostPid, Reason::new(message).hint(hint)))
}
