//! Mutations of an input.

use std::ops::Range;

use super::random::Random;
use super::words;

/// Opening and closing parts, for nesting.
const BRACKETS: &[(&str, &str)] = &[
    ("[", "]"),
    ("{", "}"),
    ("(", ")"),
    ("{\"a\":", "}"),
    ("[[", "]]"),
    ("- ", ""),
    ("? ", ""),
    ("a: ", ""),
    ("{a: ", "}"),
    ("((", "))*"),
    ("\"", "\""),
    ("<", ">"),
    ("*a", ""),
    ("../", ""),
    (".", ""),
];

pub(crate) struct Mutator<'a> {
    pub(crate) dictionary: &'a [&'a str],
    pub(crate) longest: usize,
}

impl Mutator<'_> {
    /// Some mutations, one after the other. `other` is another input, for splicing.
    pub(crate) fn mutate(&self, random: &mut Random, mut input: Vec<u8>, other: &[u8]) -> Vec<u8> {
        for _ in 0..random.up_to(8) {
            self.once(random, &mut input, other);
            input.truncate(self.longest);
        }
        input
    }

    fn once(&self, random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
        let at = random.below(input.len() + 1);
        let range = range(random, input.len());
        match random.below(16) {
            0 => change(input, at, |byte| *byte ^= 1 << (at % 8)),
            1 => {
                let byte = random.byte();
                change(input, at, |old| *old = byte);
            }
            2 => insert(input, at, &random.next().to_le_bytes()[..=random.below(8)]),
            3 => drop(input.drain(range)),
            4 => {
                let block = input[range].to_vec();
                insert(input, at, &block);
            }
            5 => {
                let block = &other[self::range(random, other.len())];
                input.splice(range, block.iter().copied());
            }
            6 | 7 => insert(input, at, random.pick(self.dictionary).unwrap_or("a").as_bytes()),
            8 => {
                let token = random.pick(self.dictionary).unwrap_or("a").as_bytes();
                input.splice(range, token.iter().copied());
            }
            9 => insert(input, at, random.pick(words("nasty")).unwrap_or("").as_bytes()),
            10 => number(random, input),
            11 => input.truncate(at),
            12 => nest(random, input, at),
            13 => repeat(random, input, range),
            14 => lines(random, input),
            _ => insert(input, at, &other[self::range(random, other.len())]),
        }
    }
}

fn change(input: &mut [u8], at: usize, how: impl Fn(&mut u8)) {
    if let Some(byte) = input.get_mut(at) {
        how(byte);
    }
}

fn insert(input: &mut Vec<u8>, at: usize, block: &[u8]) {
    input.splice(at..at, block.iter().copied());
}

/// A part, mostly a short one.
fn range(random: &mut Random, length: usize) -> Range<usize> {
    let from = random.below(length + 1);
    let most = if random.below(3) == 0 { length } else { 16 };
    from..(from + random.below(most + 1)).min(length)
}

/// Replaces a number.
fn number(random: &mut Random, input: &mut Vec<u8>) {
    let is_start = |n: &usize| {
        input[*n].is_ascii_digit() && !n.checked_sub(1).is_some_and(|b| input[b].is_ascii_digit())
    };
    let starts: Vec<usize> = (0..input.len()).filter(is_start).collect();
    if starts.is_empty() {
        return;
    }
    let from = starts[random.below(starts.len())];
    let length = input[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let other = random.pick(words("numbers")).unwrap_or("0");
    input.splice(from..from + length, other.bytes());
}

/// Nests what follows, up to some hundred levels deep.
fn nest(random: &mut Random, input: &mut Vec<u8>, at: usize) {
    let (open, close) = BRACKETS[random.below(BRACKETS.len())];
    let depth = random.up_to(500);
    let rest = input.split_off(at);
    input.extend(open.repeat(depth).bytes());
    input.extend(rest);
    input.extend(close.repeat(depth).bytes());
}

/// Repeats a part, up to some hundred times.
fn repeat(random: &mut Random, input: &mut Vec<u8>, range: Range<usize>) {
    let block = input[range.clone()].repeat(random.up_to(250));
    input.splice(range, block);
}

/// Exchanges, repeats or removes whole lines.
fn lines(random: &mut Random, input: &mut Vec<u8>) {
    let mut lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let (one, other) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(3) {
        0 => lines.swap(one, other),
        1 => lines.insert(one, lines[other]),
        _ => drop(lines.remove(one)),
    }
    *input = lines.join(&b'\n');
}
