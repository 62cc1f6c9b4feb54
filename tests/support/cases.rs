//! Tables of messages in text files.

/// The cases of a section, which begins with `== NAME`: an input in each line, and in the indented lines below it what
/// is expected.
pub(crate) fn cases<'a>(text: &'a str, section: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    let heading = format!("== {section}");
    let lines = text.lines().skip_while(|line| *line != heading).skip(1);
    for line in lines.take_while(|line| !line.starts_with("== ")).filter(|line| !line.is_empty()) {
        match line.strip_prefix("    ") {
            Some(expected) => found.last_mut().expect("an input").1.push(expected),
            None => found.push((line, Vec::new())),
        }
    }
    assert!(!found.is_empty(), "there are no cases in {section}");
    found
}
