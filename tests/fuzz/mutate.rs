//! Mutations of an input.

use std::ops::Range;

use super::random::Random;

/// Numbers at which arithmetic goes wrong.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "-0",
    "+1",
    "00",
    "1.5",
    "127",
    "128",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "1e308",
    "1e999",
    "-1e999",
    "1e-999",
    "0x7f",
    "NaN",
    "inf",
    "-Infinity",
];

/// Texts that escaping and cutting must survive.
const NASTY: &[&str] = &[
    "\0",
    "\u{1b}[31m",
    "\u{7f}",
    "\u{9b}2J",
    "\u{202e}",
    "\u{2028}",
    "\u{200f}",
    "\u{feff}",
    "\u{fffd}",
    "\u{301}",
    "\u{1f468}\u{200d}\u{1f469}",
    "\u{10ffff}",
    "ß",
    "İ",
    "\r\n",
    "\r",
    "\n",
    "\n\n",
    "\t",
    "\u{b}",
    "\u{85}",
    "\"",
    "'",
    "`",
    "\\",
    "\\u{0}",
    "\\\"",
    "%00",
    "%",
    "{}",
    "..",
    "/",
    "//",
    " ",
    "#",
    "=",
    ":",
];

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
            9 => insert(input, at, random.pick(NASTY).unwrap_or("").as_bytes()),
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
    let other = random.pick(NUMBERS).unwrap_or("0");
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
