//! Checks the imports in the source against the layers of ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::invariants::{CRATES, code, sources};

/// The modules of the package podnudge from the lowest to the highest layer, each with those that it may
/// import: only earlier rows, so that no two modules import each other. That the crates core, config, supervise and tools
/// import none of them is held by the compiler.
const LAYERS: &[(&str, &[&str])] = &[
    // Used by everything.
    ("system", &[]),
    // Performing the commands.
    ("volume", &["system"]),
    ("process", &["volume", "system"]),
    ("exchange", &["process", "system"]),
    ("cluster", &["exchange", "system"]),
    ("checks", &["exchange", "volume", "system"]),
    ("publish", &["volume", "system"]),
    ("verify", &["publish", "checks", "exchange", "process", "volume", "system"]),
    ("action", &["verify", "publish", "exchange", "process", "volume", "system"]),
    ("preflight", &["verify", "exchange", "process", "volume"]),
    ("state", &["system"]),
    // Output for people.
    ("report", &["cluster", "checks", "volume", "system"]),
    ("admin", &["exchange", "system"]),
    // Wiring.
    (
        "run",
        &[
            "admin",
            "report",
            "state",
            "preflight",
            "action",
            "verify",
            "publish",
            "checks",
            "cluster",
            "exchange",
            "process",
            "volume",
            "system",
        ],
    ),
    ("cli", &["report", "admin", "preflight", "state", "cluster", "process", "volume", "system"]),
];

#[test]
fn the_layer_table_lists_lower_layers_only() {
    let known: Vec<&str> = LAYERS.iter().map(|(module, _)| *module).collect();
    for (n, (module, imports)) in LAYERS.iter().enumerate() {
        for import in *imports {
            assert!(
                known[..n].contains(import),
                "{module} may not import {import}: it is not in a lower layer"
            );
        }
    }
}

#[test]
fn modules_import_from_lower_layers_only() {
    for file in sources(Path::new("src")).filter(|file| !is_root(file)) {
        let module = module(&file);
        let (own, allowed) = layer(&module).unwrap_or_else(|| panic!("{module} is in no layer"));
        for import in imports(&file) {
            let (of, _) = layer(&import).unwrap_or_else(|| {
                panic!("{} imports {import}, which is in no layer", file.display())
            });
            let is_allowed = of == own || allowed.contains(&of);
            assert!(is_allowed, "{} imports {import}: {own} must not use {of}", file.display());
        }
    }
}

/// The compiler keeps the other crates from importing these modules, not these modules from importing them all.
#[test]
fn modules_use_only_the_crates_that_they_need() {
    for file in sources(Path::new("src")).filter(|file| !is_root(file)) {
        let text = code(&file);
        let is_in = |module: &str| file.starts_with(Path::new("src").join(module));
        let uses_tools = text.contains("podnudge_tools::") && !is_in("cli");
        assert!(!uses_tools, "{} must not use what no pod needs", file.display());
        let uses_init =
            text.contains("podnudge_supervise::") && !is_in("process") && !is_in("exchange");
        assert!(!uses_init, "{} must not use the init", file.display());
        let uses_config = text.contains("podnudge_config::") && (is_in("system") || is_in("state"));
        assert!(!uses_config, "{} must not use the configuration", file.display());
    }
}

#[test]
fn the_import_parser_finds_nested_renamed_and_inline_paths() {
    let text = "use super::select::{self, Own};\nuse crate::{a::{B, c as d}, e};\n\
                pub(crate) use crate::f::*;\nfn g(h: &super::super::i::J) {}\nuse supercrate::k;";
    let read: Vec<String> = imports_of(text, "process::find").into_iter().collect();
    let wanted = ["a::B", "a::c", "e", "f::*", "i::J", "process::select", "process::select::Own"];
    assert_eq!(read, wanted);
}

/// The files of one folder can be read one after the other.
#[test]
fn files_of_the_edges_have_no_import_cycles() {
    let edges = [
        "volume",
        "checks",
        "publish",
        "process",
        "exchange",
        "verify",
        "action",
        "admin",
        "preflight",
        "cluster",
        "report",
    ];
    for folder in edges.iter().flat_map(|folder| folders(&Path::new("src").join(folder))) {
        assert_no_cycle(&folder);
    }
}

/// So can those of the other crates.
#[test]
fn files_of_the_crates_have_no_import_cycles() {
    for folder in CRATES.iter().flat_map(|place| folders(Path::new(place))) {
        assert_no_cycle(&folder);
    }
}

/// Where the methods of a type are spread over files, these can be read one after the other, too. A rollout that ends
/// may begin another one: these two files are one subject.
#[test]
fn files_that_share_a_type_call_each_other_in_one_direction() {
    for (place, together) in
        [("crates/core/src", &["rule/outcome.rs", "rule/progress.rs"][..]), ("src/run", &[])]
    {
        let left = without_ends(calls(Path::new(place)));
        assert_eq!(left.into_keys().collect::<Vec<_>>(), together, "in {place}");
    }
}

/// Which files call the methods that other files have for the same type, by `self` or `Self`.
fn calls(place: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut methods: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut called = Vec::new();
    // It stands for `api.rs`, and has the same methods.
    for file in sources(place).filter(|file| !file.ends_with("no_api.rs")) {
        // A long chain of calls is broken before its points.
        let text = code(&file).lines().fold(String::new(), |text, line| {
            let is_rest = line.trim_start().starts_with('.');
            text + if is_rest { line.trim_start() } else { "\n" } + if is_rest { "" } else { line }
        });
        let name = file.strip_prefix(place).unwrap().display().to_string();
        for block in text.split("\nimpl ").skip(1) {
            let (head, rest) = block.split_once('{').unwrap();
            let of = head.split(" for ").last().unwrap().trim().to_owned();
            let body = rest.split("\n}").next().unwrap();
            for found in body.split("fn ").skip(1) {
                methods.insert((of.clone(), first_word(found)), name.clone());
            }
            for found in body.split("self.").chain(body.split("Self::")).skip(1) {
                let method = first_word(found);
                if found[method.len()..].starts_with('(') {
                    called.push((of.clone(), method, name.clone()));
                }
            }
        }
    }
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (of, method, from) in called {
        if let Some(to) = methods.get(&(of, method)).filter(|to| **to != from) {
            graph.entry(from).or_default().insert(to.clone());
        }
    }
    graph
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn is_root(file: &Path) -> bool {
    file == Path::new("src/lib.rs") || file == Path::new("src/main.rs")
}

/// The row of a module: the one with the longest matching name.
fn layer(module: &str) -> Option<(&'static str, &'static [&'static str])> {
    let is_in = |name: &str| {
        module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let rows = LAYERS.iter().filter(|(name, _)| is_in(name));
    rows.max_by_key(|(name, _)| name.len()).copied()
}

/// `volume::scan` for `src/volume/scan.rs`, `volume` for `src/volume/mod.rs`, and nothing for the root of a crate.
fn module(file: &Path) -> String {
    let path = file.with_extension("");
    let parts = path.iter().map(|part| part.to_string_lossy().into_owned());
    let parts = parts.skip_while(|part| part != "src").skip(1);
    let parts: Vec<_> = parts.filter(|part| part != "mod" && part != "lib").collect();
    parts.join("::")
}

/// The paths below `crate` in a file, in imports and inline.
fn imports(file: &Path) -> BTreeSet<String> {
    imports_of(&without_comments(file), &module(file))
}

/// The same for the text of a module.
fn imports_of(text: &str, module: &str) -> BTreeSet<String> {
    let own: Vec<String> = module.split("::").map(str::to_owned).collect();
    let mut found = BTreeSet::new();
    // `pub(in …)` is no import.
    let text = &text.replace("pub(in crate::", "pub(in ");
    for (at, word) in text.match_indices("crate::").chain(text.match_indices("super::")) {
        // The second part of `super::super::`, or the end of a longer word.
        if !is_start_of_word(text, at) {
            continue;
        }
        let mut rest = &text[at + word.len()..];
        let mut path: Vec<String> = match word {
            "super::" => own[..own.len() - 1].to_vec(),
            _ => Vec::new(),
        };
        while let Some(after) = rest.strip_prefix("super::") {
            path.pop();
            rest = after;
        }
        expand(&path, &mut rest, &mut found);
    }
    found
}

/// Parses the rest of a path after its prefix, such as `a::b` or `a::{b, c::D}`.
fn expand(prefix: &[String], rest: &mut &str, found: &mut BTreeSet<String>) {
    let mut path = prefix.to_vec();
    loop {
        *rest = rest.trim_start();
        if let Some(mut inner) = rest.strip_prefix('{') {
            while !inner.trim_start().starts_with('}') && !inner.is_empty() {
                let before = inner.len();
                expand(&path, &mut inner, found);
                inner = inner.trim_start().trim_start_matches(',');
                assert!(inner.len() < before, "cannot parse a list of imports: {inner:.40}");
            }
            *rest = inner.trim_start().trim_start_matches('}');
            return;
        }
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '*';
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        *rest = after;
        // A list may contain `self`.
        if !name.is_empty() && name != "self" {
            path.push(name.to_owned());
        }
        match rest.strip_prefix("::") {
            Some(after) => *rest = after,
            None => break,
        }
    }
    if let Some(renamed) = rest.strip_prefix(" as ") {
        *rest = renamed.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
    }
    found.insert(path.join("::"));
}

fn without_comments(file: &Path) -> String {
    let code = code(file);
    let lines: Vec<&str> =
        code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    lines.join("\n")
}

/// A folder and its subfolders.
fn folders(folder: &Path) -> BTreeSet<PathBuf> {
    let parents = sources(folder).filter_map(|file| file.parent().map(Path::to_owned));
    parents.collect()
}

/// The import graph of the files and subfolders directly below a folder; `mod` is the folder's own
/// `mod.rs`. A name that `mod.rs` re-exports counts as imported from the file that defines it.
fn graph(folder: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let root = module(&folder.join("mod.rs"));
    let below = |module: &str| -> Option<String> {
        let rest = module.strip_prefix(&root)?;
        let is_whole = root.is_empty() || rest.is_empty();
        let rest = if is_whole { rest } else { rest.strip_prefix("::")? };
        rest.split("::").next().map(str::to_owned)
    };
    let entries = fs::read_dir(folder).expect("a source folder can be listed");
    let names: BTreeSet<String> = entries
        .map(|entry| PathBuf::from(entry.expect("it can be listed").file_name()))
        .map(|name| name.with_extension("").to_string_lossy().into_owned())
        .collect();
    // The module file of a folder is `mod.rs` or, of a crate, `lib.rs` in it, or lies beside it.
    let beside = Some(folder.with_extension("rs")).filter(|file| file.is_file());
    let inside = ["lib.rs", "mod.rs"].map(|name| folder.join(name));
    let mut module_files = beside.iter().chain(&inside).filter(|file| file.is_file());
    let mod_rs = without_comments(module_files.next().expect("a folder has a module file"));
    let (reexported, own): (Vec<&str>, Vec<&str>) = mod_rs
        .split(';')
        .map(str::trim)
        .partition(|part| part.starts_with("pub use ") || part.starts_with("pub(crate) use "));
    // The defining file of each re-exported name.
    let mut from = BTreeMap::new();
    for part in reexported {
        let mut rest = part.split_once("use ").map_or("", |(_, path)| path);
        let mut paths = BTreeSet::new();
        expand(&[], &mut rest, &mut paths);
        for path in paths {
            let names = path.split_once("::").map(|(file, _)| (file, path.rsplit("::").next()));
            if let Some((file, Some(name))) = names {
                from.insert(name.to_owned(), file.to_owned());
            }
        }
    }
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in sources(folder).chain(beside) {
        let node = below(&module(&file)).filter(|name| !name.is_empty());
        let node = node.unwrap_or_else(|| "mod".to_owned());
        let mut imported: BTreeSet<String> = imports(&file)
            .iter()
            .filter_map(|import| below(import))
            .map(|name| match from.get(&name) {
                _ if names.contains(&name) => name,
                Some(file) => file.clone(),
                None => "mod".to_owned(),
            })
            .collect();
        if node == "mod" {
            let own = own.join(";");
            imported
                .extend(names.iter().filter(|name| has_word(&own, &format!("{name}::"))).cloned());
            let used = from.iter().filter(|(name, _)| has_word(&own, name));
            imported.extend(used.map(|(_, file)| file.clone()));
        }
        imported.remove(&node);
        graph.entry(node).or_default().extend(imported);
    }
    graph
}

/// Whether a text contains this word or path, and not as the end of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| is_start_of_word(text, at))
}

fn is_start_of_word(text: &str, at: usize) -> bool {
    !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':')
}

fn assert_no_cycle(folder: &Path) {
    let cycle: Vec<String> = without_ends(graph(folder))
        .iter()
        .map(|(name, imported)| {
            format!("{name} imports {}", Vec::from_iter(imported.clone()).join(", "))
        })
        .collect();
    assert!(cycle.is_empty(), "an import cycle in {}: {}", folder.display(), cycle.join("; "));
}

/// What is left of a graph without the nodes that are in no cycle: a node that leads nowhere, or to which nothing leads,
/// is in none.
fn without_ends(
    mut graph: BTreeMap<String, BTreeSet<String>>,
) -> BTreeMap<String, BTreeSet<String>> {
    loop {
        let wanted: BTreeSet<&String> = graph.values().flatten().collect();
        let done: BTreeSet<String> = graph
            .iter()
            .filter(|(name, next)| next.is_empty() || !wanted.contains(name))
            .map(|(name, _)| name.clone())
            .collect();
        let nodes: BTreeSet<String> = graph.keys().cloned().collect();
        if done.is_empty() && graph.values().flatten().all(|next| nodes.contains(next)) {
            return graph;
        }
        graph.retain(|name, _| !done.contains(name));
        for next in graph.values_mut() {
            next.retain(|name| nodes.contains(name) && !done.contains(name));
        }
    }
}
