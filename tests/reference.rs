//! The reference of all settings, `docs/configuration.md`, matches their definitions. `UPDATE=1`
//! writes it instead of comparing it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use podnudge_config::{Definition, FILE, Form, Presence, Relation, Section, Single};

const PAGE: &str = "docs/configuration.md";
/// Everything before this mark is written by hand.
const MARK: &str = "<!-- Made from the definitions in crates/config: UPDATE=1 cargo test --test all reference -->\n";

#[test]
fn the_reference_matches_the_definitions() {
    let page = fs::read_to_string(PAGE).expect("the page is there");
    let (head, _) = page.split_once(MARK).expect("the page has the mark");
    let made = format!("{head}{MARK}{}", reference());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(PAGE, made).expect("the page can be written");
    } else {
        assert!(
            page == made,
            "{PAGE} is out of date: run `UPDATE=1 cargo test --test all reference`"
        );
    }
}

/// Every setting has a description, and appears only once in its table.
#[test]
fn every_setting_has_a_description() {
    for section in sections() {
        let mut keys = BTreeSet::new();
        for setting in section.settings() {
            let key = setting.key();
            assert!(setting.text().ends_with('.'), "{} {key}", section.header);
            assert!(keys.insert(key.clone()), "{} has {key} twice", section.header);
        }
    }
}

/// Every section once, in the order of the file; sections that others include come last.
fn sections() -> Vec<&'static Section> {
    let (mut tables, mut included) = (Vec::new(), Vec::new());
    collect(FILE, &mut tables, &mut included);
    tables.into_iter().chain(included).filter(|section| !section.definitions.is_empty()).collect()
}

fn collect(
    section: &'static Section,
    tables: &mut Vec<&'static Section>,
    included: &mut Vec<&'static Section>,
) {
    for definition in section.definitions {
        let (inner, list) = match definition.form {
            Form::Table(inner, _) | Form::Tables(inner, _) if inner.is_inline() => {
                (inner, &mut *included)
            }
            Form::Table(inner, _) | Form::Tables(inner, _) => (inner, &mut *tables),
            Form::Flatten(inner) => (inner, &mut *included),
            _ => continue,
        };
        if !list.iter().any(|known| known.header == inner.header) {
            list.push(inner);
            collect(inner, tables, included);
        }
    }
}

fn reference() -> String {
    let mut page = String::new();
    for section in sections() {
        write!(page, "\n## {}\n\n{}\n\n", title(section), section.text())
            .expect("a write to a string succeeds");
        page.push_str("| key | value | default | option | meaning |\n");
        page.push_str("| --- | --- | --- | --- | --- |\n");
        for setting in section.definitions {
            match setting.form {
                Form::Flatten(inner) if inner.definitions.is_empty() => {}
                Form::Flatten(inner) => {
                    let title = title(inner);
                    writeln!(page, "| | | | | Also the settings of [{title}]({}). |", link(&title))
                        .expect("a write to a string succeeds");
                }
                _ => page.push_str(&row(setting)),
            }
        }
        for relation in section.relations {
            writeln!(page, "\n{}", sentence(relation)).expect("a write to a string succeeds");
        }
    }
    page
}

fn title(section: &Section) -> String {
    match section.header {
        "access" => "Requests".to_owned(),
        header => format!("`{header}`"),
    }
}

fn link(title: &str) -> String {
    let anchor: String = title.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect();
    format!("#{}", anchor.to_lowercase())
}

fn row(setting: &Definition) -> String {
    let without = match setting.presence {
        Presence::Default(text) => code(text),
        Presence::Optional("") => String::new(),
        Presence::Optional(text) => text.to_owned(),
        Presence::Required(_) => "required".to_owned(),
    };
    let option = setting.option.map(|option| code(&format!("--{}", option.name)));
    let cells =
        [code(&setting.key()), value(setting), without, option.unwrap_or_default(), setting.text()];
    let cells = cells.map(|cell| cell.replace('|', "\\|"));
    format!("| {} |\n", cells.join(" | "))
}

fn value(setting: &Definition) -> String {
    let time = |time| code(&humantime::format_duration(time).to_string());
    let one = match setting.form {
        Form::Text(what) | Form::TextOrNumber(what) => what.to_owned(),
        Form::Duration(least, most) => format!("a duration, {} to {}", time(least), time(most)),
        Form::Number(least, most) => format!("a number, {least} to {most}"),
        Form::Bool => "`true` or `false`".to_owned(),
        Form::Choice(words) => words.iter().map(|word| code(word)).collect::<Vec<_>>().join(" or "),
        Form::Scalar => "text, a number, `true` or `false`".to_owned(),
        Form::Pairs => "a table of names and texts".to_owned(),
        Form::Table(section, None) => table(section),
        Form::Table(section, Some(short)) => {
            format!("{}; or its {} alone", table(section), code(short))
        }
        Form::Tables(section, Single::Table) => format!("{}, or a list of them", table(section)),
        Form::Tables(section, Single::No) => format!("any number of {}", table(section)),
        Form::Tables(section, Single::Key(short)) => {
            format!("any number of {}; text sets `{short}`", table(section))
        }
        Form::Flatten(_) => String::new(),
    };
    if setting.list.is_some() { format!("{one}, or a list") } else { one }
}

fn table(section: &Section) -> String {
    let title = title(section);
    format!("[{title}]({})", link(&title))
}

fn sentence(relation: &Relation) -> String {
    let list = |keys: &[&str], word: &str| {
        let keys: Vec<_> = keys.iter().map(|key| code(key)).collect();
        match keys.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            [all @ .., last] => format!("{} {word} {last}", all.join(", ")),
        }
    };
    match relation {
        Relation::AtMostOne(keys) => format!("At most one of {}.", list(keys, "and")),
        Relation::AtLeastOne(keys, ..) => format!("At least one of {}.", list(keys, "and")),
        Relation::Needs(keys @ [_], others) => {
            format!("{} is only valid with {}.", list(keys, "and"), list(others, "or"))
        }
        Relation::Needs(keys, others) => {
            format!("{} are only valid with {}.", list(keys, "and"), list(others, "or"))
        }
        Relation::Together(keys) => format!("{} go together.", list(keys, "and")),
    }
}

fn code(text: &str) -> String {
    format!("`{text}`")
}
